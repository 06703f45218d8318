"""What stands under a table of all its figures."""

import pytest

from cudabw.report.notes import count_outliers
from cudabw.results.launch import Seconds


def figure(outliers, n=24):
    return Seconds(1.0, None, None, 1.0, 1.0, n=n, outliers=outliers)


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        (
            (2, 1),
            (
                "3 of 48 bursts are outliers, more than 10 times as far off their trial's median as usual; "
                "they count like the others."
            ),
        ),
        (
            (1,),
            (
                "1 of 24 bursts is an outlier, more than 10 times as far off its trial's median as usual; "
                "it counts like the others."
            ),
        ),
        ((0, 0), None),
        ((None,), None),
        ((), None),
    ],
)
def test_samples_that_stand_apart_are_counted_over_all_figures_that_tell(counts, said):
    assert count_outliers([None, *map(figure, counts)], "bursts") == said

// The yardstick for launches from Python: the same launches from a loop in C.
// Built by launch_ratios.py: nvcc -shared -Xcompiler -fPIC -O2 -o c_loop.so c_loop.cu
#include <cuda.h>

// Launches a kernel a number of times; returns the first status that is not success.
extern "C" int c_loop_launch(CUfunction function, unsigned int grid, unsigned int block, CUstream stream, void **params,
                             int times) {
    for (int i = 0; i < times; ++i) {
        CUresult status = cuLaunchKernel(function, grid, 1, 1, block, 1, 1, 0, stream, params, nullptr);
        if (status != CUDA_SUCCESS) return (int)status;
    }
    return 0;
}

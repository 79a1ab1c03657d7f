/* In place of NVIDIA's runtime, linked into a program: whoever comes here was not redirected. Without the stand-ins there
   is no driver. */
enum { NO_DRIVER = 35 };
#define FUNCTION(name) int name(void) { return NO_DRIVER; }
void *__cudaRegisterFatBinary(void *image) { return image; }
FUNCTION(__cudaRegisterFatBinaryEnd) FUNCTION(__cudaRegisterFunction) FUNCTION(__cudaRegisterVar)
FUNCTION(__cudaRegisterManagedVar) FUNCTION(__cudaInitModule) FUNCTION(cudaMemcpyFromSymbol)
FUNCTION(cudaDeviceGetDefaultMemPool) FUNCTION(cudaMemPoolSetAttribute) FUNCTION(cudaMallocFromPoolAsync)
FUNCTION(cudaStreamAddCallback) FUNCTION(cudaMemcpy_ptds)
FUNCTION(cudaGetDeviceProperties) FUNCTION(cudaMalloc) FUNCTION(cudaMemcpyToSymbol) FUNCTION(cudaEventCreate)
FUNCTION(cudaEventRecord) FUNCTION(cudaEventElapsedTime) FUNCTION(cudaLaunchKernel) FUNCTION(cudaDeviceSynchronize)
FUNCTION(cudaMemcpy) FUNCTION(cudaGetLastError) FUNCTION(cudaGraphCreate)
char *cudaGetErrorString(void) { return "nobody"; }

// Numbers of many formats: f64 functions, pairs of f16 and bf16, and the floats of 8, 6 and 4 bits.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp4.h>
#include <cuda_fp6.h>
#include <cuda_fp8.h>

// doubles: [5][n], halves: [6][n], brains: [2][n]; small: four bytes for each pair; back: the sum of what they mean.
extern "C" __global__ void formats(const double* d, const __half2* h, const __nv_bfloat162* b, double* doubles,
                                   __half2* halves, __nv_bfloat162* brains, uchar4* small, float* back, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double x = d[i];
  doubles[i] = rsqrt(x);
  doubles[n + i] = exp(-x);
  doubles[2 * n + i] = fmod(x, 0.3);
  doubles[3 * n + i] = cbrt(x);
  doubles[4 * n + i] = __dadd_rd(x, 1e-17) / 3;

  __half2 a = h[i], half = __float2half2_rn(0.5f);
  halves[i] = __hfma2(a, a, __hmul2(a, half));
  halves[n + i] = __hmax2(__hneg2(a), __hmin2(a, half));
  halves[2 * n + i] = __hfma2_relu(a, half, __hneg2(half));
  halves[3 * n + i] = __hadd2_sat(__habs2(a), half);
  halves[4 * n + i] = __hlt(__low2half(a), __high2half(a)) ? a : __lowhigh2highlow(a);
  halves[5 * n + i] = __floats2half2_rn(__half2int_rn(__high2half(a)), __half2float(__low2half(a)) / 3);
  __nv_bfloat162 c = b[i];
  brains[i] = __hfma2(c, c, c);
  brains[n + i] = __hmul2(c, __hsub2(c, __float2bfloat162_rn(1.f)));

  float2 pair = __half22float2(a);
  __nv_fp8_e4m3 e4m3(pair.x);
  __nv_fp8_e5m2 e5m2(pair.y);
  __nv_fp6_e2m3 e2m3(pair.x);
  __nv_fp4x2_e2m1 e2m1(pair);
  small[i] = make_uchar4(e4m3.__x, e5m2.__x, e2m3.__x, e2m1.__x);
  back[i] = float(e4m3) + float(e5m2) + float(e2m3);
}

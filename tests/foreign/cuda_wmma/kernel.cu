// nvcuda::wmma: tiles of f16 through padded shared memory, and a tile each of bf16, tf32, f64, 8-bit and 1-bit integers.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

constexpr int N = 64, PAD = 8;

extern "C" __global__ void products(const half *a, const half *b, float *out, const __nv_bfloat16 *brains,
                                    const float *floats, const double *doubles, const signed char *bytes,
                                    float *brain_out, float *tf32_out, double *double_out, int *byte_out, int *bit_out) {
    __shared__ __align__(128) half near_a[N][N + PAD];
    __shared__ __align__(128) half near_b[N][N + PAD];
    for (int i = threadIdx.x; i < N * N; i += blockDim.x) {
        near_a[i / N][i % N] = a[i];
        near_b[i / N][i % N] = b[i];
    }
    __syncthreads();
    const int warp = threadIdx.x / 32;
    for (int column = 0; column < N / 16; ++column) {
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
        wmma::fill_fragment(sum, 0.0f);
        for (int k = 0; k < N / 16; ++k) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> right;
            wmma::load_matrix_sync(left, &near_a[16 * warp][16 * k], N + PAD);
            wmma::load_matrix_sync(right, &near_b[16 * column][16 * k], N + PAD);
            wmma::mma_sync(sum, left, right, sum);
        }
        for (int i = 0; i < sum.num_elements; ++i) sum.x[i] = 0.5f * sum.x[i] + 1.0f;
        wmma::store_matrix_sync(out + 16 * warp * N + 16 * column, sum, N, wmma::mem_row_major);
    }
    if (warp == 0) {
        wmma::fragment<wmma::matrix_a, 32, 8, 16, __nv_bfloat16, wmma::col_major> left;
        wmma::fragment<wmma::matrix_b, 32, 8, 16, __nv_bfloat16, wmma::row_major> right;
        wmma::fragment<wmma::accumulator, 32, 8, 16, float> sum;
        wmma::fill_fragment(sum, 2.0f);
        wmma::load_matrix_sync(left, brains, 32);
        wmma::load_matrix_sync(right, brains + 512, 8);
        wmma::mma_sync(sum, left, right, sum);
        wmma::store_matrix_sync(brain_out, sum, 32, wmma::mem_col_major);
    } else if (warp == 1) {
        wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> left;
        wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::row_major> right;
        wmma::fragment<wmma::accumulator, 16, 16, 8, float> sum;
        wmma::load_matrix_sync(left, floats, 8);
        wmma::load_matrix_sync(right, floats + 128, 16);
        wmma::load_matrix_sync(sum, floats + 256, 16, wmma::mem_row_major);
        for (int i = 0; i < left.num_elements; ++i) left.x[i] = wmma::__float_to_tf32(left.x[i]);
        for (int i = 0; i < right.num_elements; ++i) right.x[i] = wmma::__float_to_tf32(right.x[i]);
        wmma::mma_sync(sum, left, right, sum);
        wmma::store_matrix_sync(tf32_out, sum, 16, wmma::mem_row_major);
    } else if (warp == 2) {
        wmma::fragment<wmma::matrix_a, 8, 8, 4, double, wmma::row_major> left;
        wmma::fragment<wmma::matrix_b, 8, 8, 4, double, wmma::col_major> right;
        wmma::fragment<wmma::accumulator, 8, 8, 4, double> sum;
        wmma::fill_fragment(sum, 0.0);
        for (int k = 0; k < 8; k += 4) {
            wmma::load_matrix_sync(left, doubles + k, 8);
            wmma::load_matrix_sync(right, doubles + 64 + k, 8);
            wmma::mma_sync(sum, left, right, sum);
        }
        wmma::store_matrix_sync(double_out, sum, 8, wmma::mem_row_major);
    } else {
        wmma::fragment<wmma::matrix_a, 8, 32, 16, signed char, wmma::row_major> left;
        wmma::fragment<wmma::matrix_b, 8, 32, 16, signed char, wmma::col_major> right;
        wmma::fragment<wmma::accumulator, 8, 32, 16, int> sum;
        wmma::fill_fragment(sum, 7);
        wmma::load_matrix_sync(left, bytes, 16);
        wmma::load_matrix_sync(right, bytes + 128, 16);
        wmma::mma_sync(sum, left, right, sum);
        wmma::store_matrix_sync(byte_out, sum, 32, wmma::mem_row_major);
        using namespace wmma::experimental;
        wmma::fragment<wmma::matrix_a, 8, 8, 128, precision::b1, wmma::row_major> bits;
        wmma::fragment<wmma::matrix_b, 8, 8, 128, precision::b1, wmma::col_major> others;
        wmma::fragment<wmma::accumulator, 8, 8, 128, int> count;
        wmma::fill_fragment(count, 0);
        wmma::load_matrix_sync(bits, bytes, 128);
        wmma::load_matrix_sync(others, bytes + 128, 128);
        wmma::bmma_sync(count, bits, others, count, bmmaBitOpXOR);
        wmma::store_matrix_sync(bit_out, count, 8, wmma::mem_row_major);
    }
}

// Launch cluster on the first GPU, and print a digest of every buffer. Written by convc .
//
//     nvcc -std=c++17 -o host cuda_cluster.cu -lcuda
//     ./host [FOLDER]        FOLDER has the .bin files of the buffers that are read; by default the current one
//
// A buffer without a file holds small whole numbers of a seed, or bytes 0xFF. The digests are those of `convc launch`.

#include <cuda.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

static const char* const TEXT = R"ptx0(
)ptx0";

enum Source { POISON, FILE_OF_BYTES, DRAWN };

struct Buffer {
    const char* name;
    size_t bytes;
    Source source;
    uint64_t seed;         // of drawn numbers
    size_t width;          // bytes of an element
    uint64_t codes[7];     // the seven values that are drawn
    CUdeviceptr address;
};

static std::vector<Buffer> buffers = {
    {"x", 1024u, FILE_OF_BYTES, 14504697977019627562u, 4, {4294967293u, 4294967294u, 4294967295u, 0u, 1u, 2u, 3u}, 0},
    {"counts", 320u, DRAWN, 17628788434293553194u, 4, {4294967293u, 4294967294u, 4294967295u, 0u, 1u, 2u, 3u}, 0},
    {"sums", 1024u, DRAWN, 5771999728662542378u, 4, {4294967293u, 4294967294u, 4294967295u, 0u, 1u, 2u, 3u}, 0},
};

static void check(CUresult error, const char* call)
{
    if (error == CUDA_SUCCESS) return;
    const char* name = "unknown";
    cuGetErrorName(error, &name);
    std::fprintf(stderr, "%s: %s (%d)\n", call, name, static_cast<int>(error));
    std::exit(1);
}

#define CHECK(call) check(call, #call)

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static std::vector<unsigned char> contents(const Buffer& buffer, const std::string& folder)
{
    std::vector<unsigned char> data(buffer.bytes, 0xFF);
    if (buffer.source == DRAWN) {
        for (size_t i = 0; i < buffer.bytes / buffer.width; ++i)
            std::memcpy(&data[i * buffer.width], &buffer.codes[mix(buffer.seed + i + 1) % 7], buffer.width);
    }
    if (buffer.source == FILE_OF_BYTES) {
        const std::string path = folder + "/" + buffer.name + ".bin";
        std::ifstream file(path, std::ios::binary);
        file.read(reinterpret_cast<char*>(data.data()), static_cast<std::streamsize>(data.size()));
        if (static_cast<size_t>(file.gcount()) != data.size()) {
            std::fprintf(stderr, "%s: expected %zu bytes\n", path.c_str(), data.size());
            std::exit(2);
        }
    }
    return data;
}

static uint64_t digest(const std::vector<unsigned char>& data)
{
    uint64_t sum = 0;
    for (size_t i = 0; i * 8 < data.size(); ++i) {
        uint64_t word = 0;
        std::memcpy(&word, &data[i * 8], data.size() - i * 8 < 8 ? data.size() - i * 8 : 8);
        sum += mix(word ^ mix(i + 1));
    }
    return sum;
}

[[maybe_unused]] static void put_address(std::vector<unsigned char>& param, size_t at, CUdeviceptr address)
{
    std::memcpy(&param[at], &address, sizeof address);
}

// Drivers up to CUDA 13.1 set bit 21 of the second word for tensors below 128 KiB, which Blackwell does not bear.
[[maybe_unused]] static void put_map(std::vector<unsigned char>& param, size_t at, CUtensorMap map, size_t tensor_bytes, int driver)
{
    uint64_t words[16];
    std::memcpy(words, &map, sizeof words);
    if (driver <= 13010 && tensor_bytes < 131072) words[1] &= ~(UINT64_C(1) << 21);
    std::memcpy(&param[at], words, sizeof words);
}

int main(int argc, char** argv)
{
    const std::string folder = argc > 1 ? argv[1] : ".";
    CUdevice device;
    CUcontext context;
    int driver = 0;
    CHECK(cuInit(0));
    CHECK(cuDriverGetVersion(&driver));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CUmodule module;
    CUfunction function;
    CHECK(cuModuleLoadData(&module, TEXT));
    CHECK(cuModuleGetFunction(&function, module, "cluster"));
    CHECK(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 40));
    for (Buffer& buffer : buffers) {
        const std::vector<unsigned char> data = contents(buffer, folder);
        CHECK(cuMemAlloc(&buffer.address, buffer.bytes ? buffer.bytes : 1));
        CHECK(cuMemcpyHtoD(buffer.address, data.data(), data.size()));
    }

    std::vector<std::vector<unsigned char>> params = {
        {0, 0, 0, 0, 0, 0, 0, 0},
        {0, 0, 0, 0, 0, 0, 0, 0},
        {0, 0, 0, 0, 0, 0, 0, 0},
        {10, 0, 0, 0},
    };
    for (size_t i = 0; i < params.size(); ++i) {
        size_t offset = 0;
        size_t size = 0;
        CHECK(cuFuncGetParamInfo(function, i, &offset, &size));
        params[i].resize(size);
    }
    put_address(params[0], 0, buffers[0].address + 0);
    put_address(params[1], 0, buffers[1].address + 0);
    put_address(params[2], 0, buffers[2].address + 0);

    std::vector<void*> pointers;
    for (std::vector<unsigned char>& param : params) pointers.push_back(param.data());
    std::vector<CUlaunchAttribute> attributes;
    attributes.push_back({});
    attributes.back().id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attributes.back().value.clusterDim.x = 4;
    attributes.back().value.clusterDim.y = 1;
    attributes.back().value.clusterDim.z = 1;
    CUlaunchConfig config = {};
    config.gridDimX = 8;
    config.gridDimY = 1;
    config.gridDimZ = 1;
    config.blockDimX = 32;
    config.blockDimY = 1;
    config.blockDimZ = 1;
    config.sharedMemBytes = 40;
    config.attrs = attributes.data();
    config.numAttrs = static_cast<unsigned>(attributes.size());
    CHECK(cuLaunchKernelEx(&config, function, pointers.data(), nullptr));
    CHECK(cuCtxSynchronize());

    for (const Buffer& buffer : buffers) {
        std::vector<unsigned char> data(buffer.bytes);
        CHECK(cuMemcpyDtoH(data.data(), buffer.address, data.size()));
        std::printf("%s: %016llx\n", buffer.name, static_cast<unsigned long long>(digest(data)));
    }
    return 0;
}

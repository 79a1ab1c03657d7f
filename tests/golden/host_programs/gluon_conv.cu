// Launch gluon_conv on the first GPU, and print a digest of every buffer. Written by convc .
//
//     nvcc -std=c++17 -o host gluon_conv.cu -lcuda
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
    {"x", 166400u, FILE_OF_BYTES, 14504697977019627562u, 2, {49664u, 49152u, 48128u, 0u, 15360u, 16384u, 16896u}, 0},
    {"w", 165888u, DRAWN, 6400176392630499370u, 2, {49664u, 49152u, 48128u, 0u, 15360u, 16384u, 16896u}, 0},
    {"y", 25200u, DRAWN, 4056082486283008042u, 2, {49664u, 49152u, 48128u, 0u, 15360u, 16384u, 16896u}, 0},
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
    CHECK(cuModuleGetFunction(&function, module, "gluon_conv"));
    CHECK(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 24600));
    for (Buffer& buffer : buffers) {
        const std::vector<unsigned char> data = contents(buffer, folder);
        CHECK(cuMemAlloc(&buffer.address, buffer.bytes ? buffer.bytes : 1));
        CHECK(cuMemcpyHtoD(buffer.address, data.data(), data.size()));
    }

    std::vector<std::vector<unsigned char>> params = {
        {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
        {5, 0, 0, 0},
        {13, 0, 0, 0},
        {10, 0, 0, 0},
        {128, 0, 0, 0},
        {0, 65, 0, 0, 0, 0, 0, 0},
        {0, 5, 0, 0, 0, 0, 0, 0},
        {128, 0, 0, 0, 0, 0, 0, 0},
        {1, 0, 0, 0, 0, 0, 0, 0},
        {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
        {72, 0, 0, 0},
        {128, 4, 0, 0},
        {128, 4, 0, 0, 0, 0, 0, 0},
        {1, 0, 0, 0, 0, 0, 0, 0},
        {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
        {175, 0, 0, 0},
        {72, 0, 0, 0},
        {72, 0, 0, 0, 0, 0, 0, 0},
        {1, 0, 0, 0, 0, 0, 0, 0},
        {0, 0, 0, 0, 0, 0, 0, 0},
        {0, 0, 0, 0, 0, 0, 0, 0},
    };
    for (size_t i = 0; i < params.size(); ++i) {
        size_t offset = 0;
        size_t size = 0;
        CHECK(cuFuncGetParamInfo(function, i, &offset, &size));
        params[i].resize(size);
    }
    {
        CUtensorMap map;
        const cuuint64_t globalDim[] = {128, 10, 13, 5};
        const cuuint64_t globalStrides[] = {256, 2560, 33280};
        const int pixelBoxLowerCorner[] = {-1, -1};
        const int pixelBoxUpperCorner[] = {-2, -1};
        const cuuint32_t elementStrides[] = {1, 2, 2, 1};
        void* const address = reinterpret_cast<void*>(buffers[0].address + 0);
        CHECK(cuTensorMapEncodeIm2col(&map, static_cast<CUtensorMapDataType>(6), 4, address, globalDim, globalStrides, pixelBoxLowerCorner, pixelBoxUpperCorner, 64, 128, elementStrides, static_cast<CUtensorMapInterleave>(0), static_cast<CUtensorMapSwizzle>(3), static_cast<CUtensorMapL2promotion>(0), static_cast<CUtensorMapFloatOOBfill>(0)));
        put_map(params[0], 0, map, 166400u, driver);
    }
    {
        CUtensorMap map;
        const cuuint64_t globalDim[] = {1152, 72};
        const cuuint64_t globalStrides[] = {2304};
        const cuuint32_t boxDim[] = {64, 64};
        const cuuint32_t elementStrides[] = {1, 1};
        void* const address = reinterpret_cast<void*>(buffers[1].address + 0);
        CHECK(cuTensorMapEncodeTiled(&map, static_cast<CUtensorMapDataType>(6), 2, address, globalDim, globalStrides, boxDim, elementStrides, static_cast<CUtensorMapInterleave>(0), static_cast<CUtensorMapSwizzle>(3), static_cast<CUtensorMapL2promotion>(0), static_cast<CUtensorMapFloatOOBfill>(0)));
        put_map(params[9], 0, map, 165888u, driver);
    }
    {
        CUtensorMap map;
        const cuuint64_t globalDim[] = {72, 175};
        const cuuint64_t globalStrides[] = {144};
        const cuuint32_t boxDim[] = {64, 128};
        const cuuint32_t elementStrides[] = {1, 1};
        void* const address = reinterpret_cast<void*>(buffers[2].address + 0);
        CHECK(cuTensorMapEncodeTiled(&map, static_cast<CUtensorMapDataType>(6), 2, address, globalDim, globalStrides, boxDim, elementStrides, static_cast<CUtensorMapInterleave>(0), static_cast<CUtensorMapSwizzle>(3), static_cast<CUtensorMapL2promotion>(0), static_cast<CUtensorMapFloatOOBfill>(0)));
        put_map(params[14], 0, map, 25200u, driver);
    }

    std::vector<void*> pointers;
    for (std::vector<unsigned char>& param : params) pointers.push_back(param.data());
    std::vector<CUlaunchAttribute> attributes;
    CUlaunchConfig config = {};
    config.gridDimX = 2;
    config.gridDimY = 2;
    config.gridDimZ = 1;
    config.blockDimX = 128;
    config.blockDimY = 1;
    config.blockDimZ = 1;
    config.sharedMemBytes = 24600;
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

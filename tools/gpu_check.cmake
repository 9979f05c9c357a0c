# What tools/gpu_check packs, on the libtorch that gpu_check_run.py names: TORCH_INCLUDES, TORCH_FLAGS.
cmake_minimum_required(VERSION 3.20)
project(gpu_check CXX)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_FLAGS "-O2 ${CMAKE_CXX_FLAGS}")

file(GLOB_RECURSE sources include/ding_worker/*.cc)
set(tests ${sources})
list(FILTER tests INCLUDE REGEX "_test\\.cc$")
list(FILTER sources EXCLUDE REGEX "(_test|_benchmark)\\.cc$")
file(GLOB absl lib/libabsl_*.a)
find_library(benchmark benchmark PATHS lib NO_DEFAULT_PATH REQUIRED)

# Objects, not a library: a linker would leave out what is only registered.
add_library(ding OBJECT ${sources})
target_include_directories(ding PUBLIC include ${TORCH_INCLUDES})
# PyTorch computes on libraries of its own, not on OpenBLAS.
target_compile_definitions(ding PUBLIC DING_TORCH_WITHOUT_OPENBLAS)
# libtorch may have another Protobuf in it: nothing of this program is for other libraries, so that each uses its own.
target_compile_options(ding PUBLIC -fvisibility=hidden)
target_link_libraries(ding PUBLIC -Wl,--exclude-libs,ALL -Wl,--start-group ${absl} ${CMAKE_SOURCE_DIR}/lib/libprotobuf.a
  -Wl,--end-group ${TORCH_FLAGS} pthread dl
  # The sources are those of the tests, too.
  ${CMAKE_SOURCE_DIR}/lib/libgmock.a ${CMAKE_SOURCE_DIR}/lib/libgtest.a)

add_executable(torch_tests ${tests})
target_compile_options(torch_tests PRIVATE -O0)
target_link_libraries(torch_tests ${CMAKE_SOURCE_DIR}/lib/libgtest_main.a ding)

add_executable(gpu_benchmark include/ding_worker/policy/torch/gpu_benchmark.cc)
target_link_libraries(gpu_benchmark ding ${CMAKE_SOURCE_DIR}/lib/libbenchmark_main.a ${benchmark})
set_target_properties(gpu_benchmark PROPERTIES BUILD_RPATH ${CMAKE_SOURCE_DIR}/lib)

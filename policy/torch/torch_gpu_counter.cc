// Counts the GPUs of a worker by libtorch, in programs that link it.
#include "ding_worker/base/gpu_count.h"
#include "ding_worker/policy/torch/torch_device.h"

namespace ding {
namespace {

[[maybe_unused]] const bool kRegistered = (SetGpuCounter(CountTorchGpus), true);

}  // namespace
}  // namespace ding

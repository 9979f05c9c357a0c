// Registers the all-reduce type "gloo".
#include "ding_worker/adapter/gloo/gloo_all_reduce.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/interaction/all_reduce/all_reduce_registry.h"

namespace ding {
namespace {

DING_REGISTER(AllReduceRegistry(), "gloo", ConnectGloo,
              "averages over learners by libtorch with Gloo, over TCP without encryption");

}  // namespace
}  // namespace ding

// Registers the all-reduce type "tcp".
#include "ding_worker/base/registry.h"
#include "ding_worker/interaction/all_reduce/all_reduce_registry.h"
#include "ding_worker/interaction/all_reduce/tcp_all_reduce.h"

namespace ding {
namespace {

DING_REGISTER(AllReduceRegistry(), "tcp", ConnectTcp,
              "averages over learners in a ring, over TCP without encryption");

}  // namespace
}  // namespace ding

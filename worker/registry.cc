#include "ding_worker/worker/registry.h"

#include "ding_worker/worker/list_registry.h"

namespace ding {

std::string ListModules() {
  std::string text = ListSerialModules();
  ListRegistry(ParallelCollectorRegistry(), &text);
  ListRegistry(CommanderRegistry(), &text);
  ListRegistry(CommCollectorRegistry(), &text);
  ListRegistry(CommLearnerRegistry(), &text);
  ListRegistry(AllReduceRegistry(), &text);
  ListRegistry(StoreRegistry(), &text);
  ListRegistry(CodecRegistry(), &text);
  return text;
}

}  // namespace ding

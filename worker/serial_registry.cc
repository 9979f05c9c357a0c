#include "ding_worker/worker/serial_registry.h"

#include "ding_worker/worker/list_registry.h"

namespace ding {

std::string ListSerialModules() {
  std::string text;
  ListRegistry(EnvRegistry(), &text);
  ListRegistry(EnvGroupRegistry(), &text);
  ListRegistry(EnvWrapperRegistry(), &text);
  ListRegistry(EnvManagerRegistry(), &text);
  ListRegistry(PolicyRegistry(), &text);
  ListRegistry(PolicyDefaultsRegistry(), &text);
  ListRegistry(NetworkRegistry(), &text);
  ListRegistry(LossRegistry(), &text);
  ListRegistry(ScheduleRegistry(), &text);
  ListRegistry(ActorDescriberRegistry(), &text);
  ListRegistry(BufferRegistry(), &text);
  ListRegistry(SelectorRegistry(), &text);
  ListRegistry(RemoverRegistry(), &text);
  ListRegistry(SerialCollectorRegistry(), &text);
  ListRegistry(BattleCollectorRegistry(), &text);
  ListRegistry(RewardShapingRegistry(), &text);
  ListRegistry(SerialEvaluatorRegistry(), &text);
  ListRegistry(BattleEvaluatorRegistry(), &text);
  ListRegistry(MetricEvaluatorRegistry(), &text);
  ListRegistry(MetricRegistry(), &text);
  ListRegistry(LearnerRegistry(), &text);
  ListRegistry(LearnerHookRegistry(), &text);
  ListRegistry(StopperRegistry(), &text);
  ListRegistry(SinkRegistry(), &text);
  ListRegistry(VideoFormatRegistry(), &text);
  return text;
}

}  // namespace ding

// A commander of a parallel run: "patient" is "solo", but the run has converged only when several
// evaluations have reached env.stop_value. A commander with other tasks implements BaseCommander.
//   commander { type: "patient" params { [type.googleapis.com/own.PatientCommanderParams] { evaluations: 3 } } }
#include <memory>

#include "ding_worker/coordinator/commander/commander_registry.h"
#include "ding_worker/coordinator/commander/solo_commander.h"
#include "ding_worker/coordinator/commander/solo_options.h"
#include "own_modules.pb.h"

namespace own {
namespace {

absl::StatusOr<std::unique_ptr<ding::BaseCommander>> Create(const ding::CommanderConfig& config,
                                                            const PatientCommanderParams& params,
                                                            const ding::CommanderDeps& deps) {
  if (params.evaluations() < 1)
    return absl::InvalidArgumentError("evaluations is below 1, expected at least 1");
  ding::SoloCommander::Options options = ding::ToSoloOptions(config, deps);
  options.may_converge = [reached = 0, needed = params.evaluations(),
                          metrics = deps.metrics]() mutable {
    ++reached;
    metrics->Scalar("own/evaluations_reached", reached, reached);
    return reached >= needed;
  };
  return ding::SoloCommander::Create(options, deps.policy, deps);
}

DING_REGISTER(ding::CommanderRegistry(), "patient", ding::CommanderDescriptor{Create},
              "solo that converges after several good evaluations");

}  // namespace
}  // namespace own

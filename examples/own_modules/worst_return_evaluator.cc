// A serial evaluator: "worst_return" judges a policy by the worst of its returns, in one process
// and in several.
//   eval { evaluator { type: "worst_return" } }
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/evaluator/eval_core.h"
#include "ding_worker/collector/serial_registry.h"

namespace own {
namespace {

class WorstReturn : public ding::CoreEvaluator {
 public:
  static absl::StatusOr<std::unique_ptr<ding::ISerialEvaluator>> Create(
      const ding::SerialEvaluatorConfig& config, ding::EnvManager* env, ding::EvalMode* policy,
      const ding::ComponentDeps& deps) {
    ding::EvalCore::Options options;
    ding::ReadSerialEvaluatorOptions(config, &options.common);
    ding::ReadParams(config, /*params=*/nullptr, &options.common.problems);
    options.score = [](const ding::VectorEvalMonitor& episodes) {
      const std::vector<double> returns = episodes.GetEpisodeReturn();
      return *std::min_element(returns.begin(), returns.end());
    };
    DING_ASSIGN_OR_RETURN(
        auto core, ding::EvalCore::Create(std::move(options), env, ding::PoliciesOf(policy), deps));
    return absl::WrapUnique(new WorstReturn(std::move(core)));
  }

  absl::StatusOr<ding::EvalResult> Eval(const ding::EvalOptions& options) override {
    DING_ASSIGN_OR_RETURN(const ding::EvalCore::Outcome outcome,
                          core()->Eval(options, /*videos=*/nullptr));
    return outcome.ToResult();
  }

 private:
  explicit WorstReturn(std::unique_ptr<ding::EvalCore> core)
      : ding::CoreEvaluator(std::move(core)) {}
};

DING_REGISTER(ding::SerialEvaluatorRegistry(), "worst_return", WorstReturn::Create,
              "the worst of the returns");

}  // namespace
}  // namespace own

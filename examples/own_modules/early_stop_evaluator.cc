// A metric evaluator: "early_stop" ends a supervised run when several evaluations in a row were not
// better than the best one before. It has a MetricSerialEvaluator as a part, which evaluates.
//   metric_evaluator { type: "early_stop" params { [type.googleapis.com/own.EarlyStopParams] { patience: 5 } } }
#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/serial_registry.h"
#include "own_modules.pb.h"

namespace own {
namespace {

class EarlyStop : public ding::IMetricEvaluator {
 public:
  EarlyStop(std::unique_ptr<ding::IMetricEvaluator> base, const EarlyStopParams& params,
            const ding::ComponentDeps& deps)
      : base_(std::move(base)), params_(params), deps_(deps) {}

  absl::StatusOr<ding::MetricEvalResult> Eval(const ding::EvalOptions& options) override {
    DING_ASSIGN_OR_RETURN(ding::MetricEvalResult result, base_->Eval(options));
    const double value = result.metric.GetOr(params_.value(), 0);
    waited_ = value > best_ ? 0 : waited_ + 1;
    best_ = std::max(best_, value);
    deps_.metrics->Scalar("own/evaluations_without_better", options.train_iter,
                          static_cast<double>(waited_));
    result.stop = result.stop || waited_ >= params_.patience();
    return result;
  }
  std::optional<ding::MetricEvalResult> last() const override {
    std::optional<ding::MetricEvalResult> last = base_->last();
    if (last.has_value()) last->stop = last->stop || waited_ >= params_.patience();
    return last;
  }
  absl::Status Reset(ding::EvalMode* policy, ding::IEvalData* data,
                     const ding::IMetric* metric) override {
    waited_ = 0;
    best_ = -std::numeric_limits<double>::infinity();
    return base_->Reset(policy, data, metric);
  }
  absl::Status SaveState(ding::StateWriter* writer) const override {
    DING_RETURN_IF_ERROR(writer->WriteInt("waited", waited_));
    DING_RETURN_IF_ERROR(writer->WriteDouble("best_value", best_));
    return base_->SaveState(writer);
  }
  absl::Status LoadState(ding::StateReader* reader) override {
    DING_ASSIGN_OR_RETURN(waited_, reader->ReadCount("waited"));
    DING_ASSIGN_OR_RETURN(best_, reader->ReadDouble("best_value"));
    return base_->LoadState(reader);
  }

  absl::Status ResetData(ding::IEvalData* data, const ding::IMetric* metric) override {
    return base_->ResetData(data, metric);
  }
  absl::Status ResetPolicy(ding::EvalMode* policy) override { return base_->ResetPolicy(policy); }
  bool ShouldEval(int64_t train_iter) override { return base_->ShouldEval(train_iter); }

 private:
  const std::unique_ptr<ding::IMetricEvaluator> base_;
  const EarlyStopParams params_;
  const ding::ComponentDeps deps_;
  int64_t waited_ = 0;  // evaluations without a better one
  double best_ = -std::numeric_limits<double>::infinity();
};

DING_REGISTER(
    ding::MetricEvaluatorRegistry(), "early_stop",
    [](const ding::MetricEvaluatorConfig& config, const EarlyStopParams& params,
       ding::IEvalData* data, const ding::IMetric* metric, ding::EvalMode* policy,
       const ding::ComponentDeps& deps) -> absl::StatusOr<std::unique_ptr<ding::IMetricEvaluator>> {
      if (params.patience() < 1)
        return absl::InvalidArgumentError("patience is below 1, expected at least 1");
      ding::MetricEvaluatorConfig base = config;
      base.set_type("metric");
      base.clear_params();
      DING_ASSIGN_OR_RETURN(auto made,
                            ding::create_metric_evaluator(base, data, metric, policy, deps));
      return std::make_unique<EarlyStop>(std::move(made), params, deps);
    },
    "ends the run when evaluations do not become better");

}  // namespace
}  // namespace own

// A metric of labelled data: "right_recall" is the share of the recorded pushes to the right
// (action 1) that the policy would make, too.
//   metric_evaluator { metric: "right_recall" }
#include <algorithm>
#include <memory>

#include "ding_worker/collector/serial_registry.h"

namespace own {
namespace {

class RightRecall : public ding::IMetric {
 public:
  absl::StatusOr<ding::NamedValues> Eval(const ding::ColumnsView& output,
                                         const ding::ColumnsView& label) const override {
    double recorded = 0;
    double found = 0;
    for (int64_t row = 0; row < label.rows(); ++row) {
      if (label.row(row).scalar<int64_t>(0) != 1) continue;
      ++recorded;
      if (output.row(row).scalar<int64_t>(0) == 1) ++found;
    }
    return ding::NamedValues{{"right_recall", found / std::max(recorded, 1.0)}};
  }
  bool GreaterOrEqual(const ding::NamedValues& a, const ding::NamedValues& b) const override {
    return a.GetOr("right_recall", 0) >= b.GetOr("right_recall", 0);
  }
};

DING_REGISTER(ding::MetricRegistry(), "right_recall", std::make_shared<const RightRecall>(),
              "share of the recorded pushes to the right that the policy makes, too");

}  // namespace
}  // namespace own

#include "ding_worker/data/goal_fields.h"

#include <cmath>
#include <cstddef>
#include <optional>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/check.h"
#include "ding_worker/data/spec.h"

namespace ding {

double GoalDistance(absl::Span<const float> achieved, absl::Span<const float> desired) {
  DING_CHECK(achieved.size() == desired.size())
      << "a goal of " << achieved.size() << " numbers, compared with one of " << desired.size();
  double sum = 0;
  for (size_t i = 0; i < achieved.size(); ++i) {
    const double difference = static_cast<double>(achieved[i]) - desired[i];
    sum += difference * difference;
  }
  return std::sqrt(sum);
}

absl::Status CheckGoalFields(const Spec& fields) {
  for (const absl::string_view name : {kAchievedGoalField, kDesiredGoalField}) {
    const std::optional<int> index = fields.Find(name);
    if (!index.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "there is no '", name, "', which a task with a goal has (as ReachGoal-v0); there are:\n",
          fields.DebugString()));
    }
    if (fields.field(*index).dtype != DType::kFloat32) {
      return absl::InvalidArgumentError(absl::StrCat(
          "'", name, "' is ", fields.field(*index).DebugString(), ", expected float32"));
    }
  }
  const FieldSpec& achieved = fields.field(*fields.Find(kAchievedGoalField));
  const FieldSpec& desired = fields.field(*fields.Find(kDesiredGoalField));
  if (achieved.shape != desired.shape) {
    return absl::InvalidArgumentError(absl::StrCat("the achieved goal is ", achieved.DebugString(),
                                                   " and the desired ", desired.DebugString(),
                                                   ", expected the same shape"));
  }
  return absl::OkStatus();
}

}  // namespace ding

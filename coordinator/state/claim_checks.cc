#include "ding_worker/coordinator/state/claim_checks.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/dtype.h"
#include "ding_worker/data/sample_columns.h"

namespace ding {
namespace {

// A worker makes fewer steps per second than this. A task may claim kFreeSteps more, so that one that has just
// begun is not refused.
constexpr double kMaxStepsPerSecond = 1e7;
constexpr double kFreeSteps = 1e6;

double MostSteps(absl::Duration elapsed) {
  return kFreeSteps + kMaxStepsPerSecond * absl::ToDoubleSeconds(elapsed);
}

}  // namespace

absl::Status CheckPace(const std::string& task_id, int64_t steps, absl::Duration elapsed) {
  if (static_cast<double>(steps) <= MostSteps(elapsed)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(steps, " steps or rows in ", absl::ToDoubleSeconds(elapsed), " s of ", task_id,
                   ", expected at most ", kMaxStepsPerSecond, " per second"));
}

absl::Status CheckFirstIter(const std::string& task_id, int64_t iter, int64_t known,
                            absl::Duration run_elapsed) {
  if (static_cast<double>(iter) <= static_cast<double>(known) + MostSteps(run_elapsed)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(task_id, " begins at train iteration ", iter,
                   ", expected an iteration that its predecessor can have reached since ", known));
}

absl::Status CheckItemLayout(const Spec& expected, const ItemSequences& sequences,
                             const SegmentBatch& items) {
  DING_RETURN_IF_ERROR(CheckSameLayout(expected, items.rows.spec(), "items"));
  for (const int64_t length : items.rows.column<int64_t>(kColumnLength)) {
    if (sequences.Allows(length)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("an item of ", length, " rows, expected ", sequences.AllowedRows()));
  }
  return absl::OkStatus();
}

absl::Status CheckCollectIters(const SegmentBatch& items, int64_t newest) {
  const Spec& spec = items.rows.spec();
  const std::optional<int> field = spec.Find(kColumnCollectIter);
  const bool is_number = field.has_value() && spec.field(*field).dtype == DType::kInt64 &&
                         spec.field(*field).shape.empty();
  if (!is_number) return absl::OkStatus();
  for (const int64_t iter : items.rows.column<int64_t>(*field)) {
    if (iter >= -1 && iter <= newest) continue;
    return absl::InvalidArgumentError(absl::StrCat("a row that was collected at train iteration ",
                                                   iter, ", expected -1 to ", newest,
                                                   ", that of the newest published policy"));
  }
  return absl::OkStatus();
}

absl::Status CheckPlayedVersion(const CollectorTask& task, const CollectorFinished& info,
                                uint64_t newest_version, int64_t newest_iter) {
  if (info.policy_version() <= newest_version && info.train_iter() <= newest_iter) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(task.task_id(), " was played by version ", info.policy_version(), " of ",
                   task.policy_id(), ", train iteration ", info.train_iter(), ", expected at most ",
                   newest_version, " and ", newest_iter, ", which were published"));
}

}  // namespace ding

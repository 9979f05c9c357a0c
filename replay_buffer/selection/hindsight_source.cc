#include "ding_worker/replay_buffer/selection/hindsight_source.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/goal_fields.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/replay_buffer/selection/draw_source.h"
#include "ding_worker/replay_buffer/storage/transition_reader.h"

namespace ding {
namespace {

constexpr int64_t kNone = -1;

// The places of the goals.
struct GoalFields {
  // In the rows; those of the goals are also the places in the last observations.
  int achieved = 0;
  int row_desired = 0;
  int row_reward = 0;
  int64_t size = 0;  // G
  // In the batches.
  int desired = 0;
  int next_desired = 0;
  int next_achieved = 0;
  int reward = 0;
};

absl::Status CheckGoals(const Spec& rows) {
  DING_RETURN_IF_ERROR(Annotate(CheckGoalFields(rows), "the env has no goals"));
  const std::optional<int> reward = rows.Find(kColumnReward);
  if (reward.has_value() && rows.field(*reward).shape.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("expected a reward of one number, found ", rows.DebugString()));
}

absl::StatusOr<GoalFields> FindGoals(const Spec& rows, const Spec& batch) {
  GoalFields fields;
  DING_ASSIGN_OR_RETURN(fields.achieved, rows.IndexOf(kAchievedGoalField, "rows"));
  DING_ASSIGN_OR_RETURN(fields.row_desired, rows.IndexOf(kDesiredGoalField, "rows"));
  DING_ASSIGN_OR_RETURN(fields.row_reward, rows.IndexOf(kColumnReward, "rows"));
  fields.size = rows.field(fields.achieved).num_elements();
  DING_ASSIGN_OR_RETURN(fields.desired, batch.IndexOf(kDesiredGoalField, "batch"));
  DING_ASSIGN_OR_RETURN(fields.next_desired,
                        batch.IndexOf(NextObsColumn(kDesiredGoalField), "batch"));
  DING_ASSIGN_OR_RETURN(fields.next_achieved,
                        batch.IndexOf(NextObsColumn(kAchievedGoalField), "batch"));
  DING_ASSIGN_OR_RETURN(fields.reward, batch.IndexOf(kColumnReward, "batch"));
  return fields;
}

class HindsightSource : public RowSource {
 public:
  HindsightSource(std::shared_ptr<TransitionReader> reader, const GoalFields& fields,
                  const HindsightOptions& options)
      : RowSource(std::move(reader)), fields_(fields), options_(options) {}

  absl::Status Check(const SegmentBatch& data) const override {
    const ColumnsView rows = data.rows.view();
    const ColumnsView last = data.final_obs.view();
    const auto size = static_cast<size_t>(fields_.size);
    const absl::Span<const float> achieved = rows.column<float>(fields_.achieved);
    const absl::Span<const float> last_achieved = last.column<float>(fields_.achieved);
    const absl::Span<const float> desired = rows.column<float>(fields_.row_desired);
    const absl::Span<const float> reward = rows.column<float>(fields_.row_reward);
    for (size_t i = 0; i < data.segments.size(); ++i) {
      const Segment& segment = data.segments[i];
      for (int64_t step = 0; step < segment.length; ++step) {
        const auto row = static_cast<size_t>(segment.begin + step);
        const bool ends = step + 1 == segment.length;
        const absl::Status status = CheckHindsightReward(
            options_,
            ends ? last_achieved.subspan(i * size, size) : achieved.subspan((row + 1) * size, size),
            desired.subspan(row * size, size), reward[row]);
        if (!status.ok()) {
          return Annotate(status, absl::StrCat("row ", row, " (step ", segment.first_step + step,
                                               " of stream ", segment.stream, ")"));
        }
      }
    }
    return absl::OkStatus();
  }
  void Append(const SegmentBatch& /*data*/, int64_t first_id) override {
    if (options_.goal == HindsightGoal::kEpisode) LinkBack(std::max(first_id, store().begin_id()));
  }
  void Clear() override { open_.clear(); }
  // The links follow from the rows.
  absl::Status Load(StateReader* /*reader*/) override {
    if (options_.goal == HindsightGoal::kEpisode) LinkBack(store().begin_id());
    return absl::OkStatus();
  }

  // Notes the new goal of each row, or NaN if it keeps its own.
  absl::Status Draw(const DrawRequest& request, std::optional<TransitionDraw>* draw) override {
    DING_RETURN_IF_ERROR(RowSource::Draw(request, draw));
    std::vector<float>& goals = (*draw)->notes();
    const absl::Span<const int64_t> ids = (*draw)->ids();
    const auto size = static_cast<size_t>(fields_.size);
    goals.assign(ids.size() * size, std::numeric_limits<float>::quiet_NaN());
    for (size_t i = 0; i < ids.size(); ++i) {
      if (request.rng->Uniform() >= options_.relabel_ratio) continue;
      const RowSuccessor after = store().Next(ChooseRow(ids[i], request.rng));
      std::memcpy(goals.data() + i * size, store().At(after.obs, fields_.achieved),
                  size * sizeof(float));
    }
    return absl::OkStatus();
  }

  void Edit(TransitionDraw* draw) const override {
    const MutableColumnsView columns = draw->columns();
    const auto size = static_cast<size_t>(fields_.size);
    const absl::Span<float> reward = columns.column<float>(fields_.reward);
    for (size_t i = 0; i < reward.size(); ++i) {
      const float* const goal = draw->notes().data() + i * size;
      if (std::isnan(goal[0])) continue;
      const auto put = [&](int field) {
        std::copy_n(goal, size, columns.column<float>(field).data() + i * size);
      };
      put(fields_.desired);
      put(fields_.next_desired);
      const float* const achieved = columns.column<float>(fields_.next_achieved).data() + i * size;
      const double distance = GoalDistance({achieved, size}, {goal, size});
      reward[i] = distance <= options_.radius ? options_.reward_at_goal : options_.reward_elsewhere;
    }
  }

 private:
  // Returns the row of the episode of `id` whose goal is to be taken.
  int64_t ChooseRow(int64_t id, Rng* rng) {
    episode_.clear();
    if (options_.goal == HindsightGoal::kEpisode) {
      for (int64_t row = PreviousOf(id); row != kNone; row = PreviousOf(row)) {
        episode_.push_back(row);
      }
    }
    for (int64_t row = id; row != kNone; row = store().Next(row).id) episode_.push_back(row);
    if (options_.goal == HindsightGoal::kFinal) return episode_.back();
    return episode_[rng->UniformInt(episode_.size())];
  }

  // Links the rows from `first_id` on to the rows before them, and the row behind each open stream.
  void LinkBack(int64_t first_id) {
    previous_.resize(static_cast<size_t>(store().capacity_rows()), kNone);
    std::vector<int64_t> rows;
    std::swap(rows, open_);
    for (int64_t id = first_id; id < store().end_id(); ++id) {
      previous_[SlotOf(id)] = kNone;
      rows.push_back(id);
    }
    for (const int64_t id : rows) {
      if (id < store().begin_id()) continue;
      const RowSuccessor next = store().Next(id);
      if (next.id != kNone) {
        previous_[SlotOf(next.id)] = id;
      } else if (next.end == SegmentEnd::kCut) {
        open_.push_back(id);
      }
    }
  }
  int64_t PreviousOf(int64_t id) const {
    const int64_t previous = previous_[SlotOf(id)];
    return previous >= store().begin_id() ? previous : kNone;
  }
  size_t SlotOf(int64_t id) const { return static_cast<size_t>(id) % previous_.size(); }

  const GoalFields fields_;
  const HindsightOptions options_;
  std::vector<int64_t> episode_;   // working space
  std::vector<int64_t> previous_;  // by slot: the row before; kNone: none. Only for kEpisode
  std::vector<int64_t> open_;      // rows that may get a successor
};

}  // namespace

absl::Status CheckHindsightReward(const HindsightOptions& options, absl::Span<const float> achieved,
                                  absl::Span<const float> desired, float reward) {
  const double distance = GoalDistance(achieved, desired);
  const bool there = distance <= options.radius;
  const float expected = there ? options.reward_at_goal : options.reward_elsewhere;
  // A reward that a wrapper has scaled may differ in its last digit.
  if (std::abs(reward - expected) <= 1e-6f * std::max(1.0f, std::abs(expected))) {
    return absl::OkStatus();
  }
  double magnitude = options.radius;
  for (size_t i = 0; i < achieved.size(); ++i) {
    magnitude += std::abs(achieved[i]) + std::abs(desired[i]);
  }
  if (std::abs(distance - options.radius) <= 1e-6 * magnitude) return absl::OkStatus();
  const absl::string_view field = there ? "reward_at_goal" : "reward_elsewhere";
  return absl::InvalidArgumentError(absl::StrCat(
      "the env's reward is ", reward, ", but a relabelled row with these goals would get ",
      expected, ": ", field, " is ", expected, ", and the achieved goal is ", distance,
      " from the desired one (radius ", options.radius, "); set ", field, ": ", reward,
      " or another radius if the env rewards so, after wrappers and reward_shaping. Rewards that "
      "are not one number within the radius and one elsewhere cannot be relabelled: use another "
      "buffer, such as 'naive'"));
}

absl::StatusOr<std::unique_ptr<DrawSource>> HindsightDraws::MakeSource(
    std::shared_ptr<RowStore> store) {
  DING_RETURN_IF_ERROR(CheckGoals(*store->spec()));
  const SpecPtr rows = store->spec();
  DING_ASSIGN_OR_RETURN(std::shared_ptr<TransitionReader> reader,
                        TransitionReader::Create(std::move(store), /*nstep=*/1, gamma_));
  DING_ASSIGN_OR_RETURN(const GoalFields fields, FindGoals(*rows, *reader->spec()));
  return std::make_unique<HindsightSource>(std::move(reader), fields, options_);
}

}  // namespace ding

#include "ding_worker/worker/run/data_set.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/shuffle.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/episodes.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/policy/column_binding.h"

namespace ding {
namespace {

// Rows of a held-out batch: enough to keep a network busy, and few enough to stay in the caches.
constexpr int64_t kHeldOutBatchRows = 1024;

// Appends a sentence for each field of `wanted` that is missing from `rows`, or is different there.
void CompareFields(const Spec& wanted, const Spec& rows, std::vector<std::string>* problems) {
  for (const FieldSpec& want : wanted.fields()) {
    const std::optional<int> found = rows.Find(want.name);
    if (!found.has_value()) {
      problems->push_back(
          absl::StrCat("it has no '", want.name, "', the env has ", want.DebugString()));
      continue;
    }
    FieldSpec have = rows.field(*found);
    // How a buffer may store the field does not matter here.
    have.frame_stack_axis = want.frame_stack_axis;
    if (have != want) {
      problems->push_back(absl::StrCat("its '", want.name, "' is ", have.DebugString(),
                                       ", the env's is ", want.DebugString()));
    }
  }
}

absl::Status CheckSpaces(const EpisodeSet& set, const EnvSpec& env) {
  std::vector<std::string> problems;
  CompareFields(*env.observation, set.episodes.rows.spec(), &problems);
  CompareFields(*env.action, set.episodes.rows.spec(), &problems);
  for (const FieldSpec& field : set.episodes.final_obs.spec().fields()) {
    if (env.observation->Find(field.name).has_value()) continue;
    problems.push_back(absl::StrCat("its observation has '", field.name, "' ", field.DebugString(),
                                    ", the env's has not"));
  }
  if (problems.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("episodes of env '", set.env, "' do not fit env '",
                                                 env.name, "': ", absl::StrJoin(problems, "; ")));
}

// Returns the episode numbers in a random order; the first of them are held out.
std::vector<int64_t> OrderEpisodes(int64_t episodes, uint64_t seed) {
  std::vector<int64_t> order(static_cast<size_t>(episodes));
  std::iota(order.begin(), order.end(), int64_t{0});
  Rng rng(seed, "data_set/held_out");
  Shuffle(absl::MakeSpan(order), &rng);
  return order;
}

// Copies the rows of these episodes, in the order of the file.
absl::StatusOr<Batch> TakeEpisodes(const ColumnsView& rows, const std::vector<Segment>& segments,
                                   absl::Span<const int64_t> episodes, const SpecPtr& spec) {
  std::vector<int64_t> sorted(episodes.begin(), episodes.end());
  std::sort(sorted.begin(), sorted.end());
  int64_t count = 0;
  for (const int64_t episode : sorted) count += segments[static_cast<size_t>(episode)].length;
  DING_ASSIGN_OR_RETURN(BatchBuilder builder, BatchBuilder::Create(spec, count));
  int64_t next = 0;
  for (const int64_t episode : sorted) {
    const Segment& segment = segments[static_cast<size_t>(episode)];
    CopyRows(rows.Slice(segment.begin, segment.length), builder.view(), next);
    next += segment.length;
  }
  return std::move(builder).Seal(count);
}

absl::StatusOr<std::unique_ptr<IEvalData>> MakeHeldOut(const Batch& rows, const SpecPtr& action,
                                                       int action_field) {
  DING_ASSIGN_OR_RETURN(BatchBuilder labels, BatchBuilder::Create(action, rows.rows()));
  CopyRows(rows.view().Fields(action.get(), action_field), labels.view(), 0);
  const Batch label = std::move(labels).Seal(rows.rows());
  std::vector<LabelledBatch> batches;
  for (int64_t begin = 0; begin < rows.rows(); begin += kHeldOutBatchRows) {
    const int64_t count = std::min(kHeldOutBatchRows, rows.rows() - begin);
    batches.push_back({rows.Slice(begin, count), label.Slice(begin, count)});
  }
  return std::make_unique<EvalDataInMemory>(std::move(batches));
}

absl::StatusOr<DataSet> MakeDataSet(const DataSetOptions& options, const EnvSpec* env,
                                    const EpisodeSet& set) {
  const SegmentBatch& episodes = set.episodes;
  const auto count = static_cast<int64_t>(episodes.segments.size());
  if (count < 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        "there is ", count, " episode, expected one to learn from and one to hold out at least"));
  }
  DataSet made;
  if (env != nullptr) {
    DING_RETURN_IF_ERROR(CheckSpaces(set, *env));
    made.observation = env->observation;
    made.action = env->action;
  } else {
    DING_ASSIGN_OR_RETURN(const int action, episodes.rows.spec().IndexOf(kColumnAction, "rows"));
    DING_ASSIGN_OR_RETURN(made.action, MakeSpec({episodes.rows.spec().field(action)}));
    made.observation = episodes.final_obs.spec_ptr();
  }
  std::vector<FieldSpec> fields(made.observation->fields().begin(),
                                made.observation->fields().end());
  fields.push_back(made.action->field(0));
  DING_ASSIGN_OR_RETURN(const SpecPtr spec, MakeSpec(std::move(fields)));
  ColumnBinding columns(spec, "", "rows");
  DING_RETURN_IF_ERROR(columns.Resolve(episodes.rows.spec()));
  const ColumnsView rows = columns.Bind(episodes.rows.view());
  DING_RETURN_IF_ERROR(columns.CheckValues(rows));

  const auto held_out_episodes = std::clamp<int64_t>(
      std::llround(options.held_out * static_cast<double>(count)), 1, count - 1);
  const std::vector<int64_t> order = OrderEpisodes(count, options.seed);
  const auto held_out = absl::MakeConstSpan(order).first(static_cast<size_t>(held_out_episodes));
  const auto training = absl::MakeConstSpan(order).subspan(static_cast<size_t>(held_out_episodes));
  DING_ASSIGN_OR_RETURN(made.training, TakeEpisodes(rows, episodes.segments, training, spec));
  DING_ASSIGN_OR_RETURN(const Batch judged, TakeEpisodes(rows, episodes.segments, held_out, spec));
  DING_ASSIGN_OR_RETURN(made.held_out, MakeHeldOut(judged, made.action, made.observation->size()));
  made.checksum = set.checksum;
  made.description =
      absl::StrCat(training.size(), " episodes (", made.training.rows(), " rows) of env '", set.env,
                   "' to learn from, ", held_out.size(), " (", judged.rows(), " rows) held out");
  return made;
}

}  // namespace

absl::StatusOr<DataSet> LoadDataSet(const DataSetOptions& options, const EnvSpec* env) {
  const absl::StatusOr<EpisodeSet> set = ReadEpisodes(options.path);
  if (absl::IsNotFound(set.status())) {
    return absl::NotFoundError(absl::StrCat(
        "data set: ", set.status().message(),
        "; two commands make one: tools/train worker/configs/cartpole_ppo.textproto "
        "--exp_dir=expert (or another config whose policy plays the env), then "
        "bazel run //worker:evaluate -- --checkpoint=expert/ckpt/ckpt_best --episodes=50 "
        "--record_episodes=",
        options.path));
  }
  if (!set.ok()) return Annotate(set.status(), "data set");
  absl::StatusOr<DataSet> made = MakeDataSet(options, env, *set);
  if (made.ok()) return made;
  return Annotate(made.status(), absl::StrCat("data set '", options.path, "'"));
}

}  // namespace ding

#include "ding_worker/worker/setup/data_set.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/crc32c.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/episodes.h"
#include "ding_worker/data/returns.h"
#include "ding_worker/data/safetensors.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/policy/action_space.h"
#include "ding_worker/policy/batch_columns.h"
#include "ding_worker/replay_buffer/buffer_file.h"
#include "ding_worker/worker/run_folder/run_checkpoints.h"

namespace ding {
namespace {

// Rows of a held-out batch: enough to keep a network busy, and few enough to stay in the caches.
constexpr int64_t kHeldOutBatchRows = 1024;

constexpr char kReplayBuffer[] = "replay_buffer";

uint32_t ChecksumOf(const SegmentBatch& episodes) {
  uint32_t crc = 0;
  for (const Batch* const batch : {&episodes.rows, &episodes.final_obs}) {
    for (int field = 0; field < batch->spec().size(); ++field) {
      crc = Crc32c(batch->tensor(field).bytes(), crc);
    }
  }
  return crc;
}

// Errors as of ReadSavedEpisodes(), which name `path`.
absl::StatusOr<EpisodeSet> EpisodesOfBuffer(const std::string& path, StateReader* state,
                                            std::string env) {
  EpisodeSet set;
  absl::StatusOr<SegmentBatch> episodes = ReadSavedEpisodes(state);
  if (!episodes.ok()) return Annotate(episodes.status(), absl::StrCat("'", path, "'"));
  set.episodes = *std::move(episodes);
  set.env = std::move(env);
  set.checksum = ChecksumOf(set.episodes);
  return set;
}

// `path` is the folder of a run, whose newest resume point counts, or of a resume point.
absl::StatusOr<EpisodeSet> EpisodesOfRun(const std::string& path) {
  std::optional<CheckpointReader> checkpoint;
  if (PathExists(JoinPath(path, "manifest.json"))) {
    DING_ASSIGN_OR_RETURN(checkpoint, CheckpointReader::Open(path));
  } else {
    DING_ASSIGN_OR_RETURN(std::optional<ResumePoint> newest, OpenNewestResumePoint(path));
    if (!newest.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the folder '", path,
                       "' has no resume point, expected the folder of a serial run or of one of "
                       "its resume points"));
    }
    checkpoint = std::move(newest->checkpoint);
  }
  const absl::StatusOr<std::unique_ptr<StateReader>> buffer = checkpoint->Component(kReplayBuffer);
  if (!buffer.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", path, "': ", buffer.status().message(),
        "; resume points have a replay buffer if the run has one that is not larger than "
        "resume.max_replay_bytes"));
  }
  const auto& fields = checkpoint->info().fields;
  const auto env = fields.find("env");
  return EpisodesOfBuffer(path, buffer->get(), env == fields.end() ? "" : env->second);
}

// A file of episodes or of a replay buffer.
absl::StatusOr<EpisodeSet> EpisodesOfFile(const std::string& path) {
  absl::StatusOr<EpisodeSet> set = ReadEpisodes(path);
  if (!absl::IsInvalidArgument(set.status())) return set;
  const auto file = SafetensorsReader::OpenSelfChecked(path);
  if (!file.ok()) return set;
  absl::StatusOr<EpisodeSet> of_buffer = EpisodesOfBuffer(path, file->get(), /*env=*/"");
  return absl::IsNotFound(of_buffer.status()) ? set : of_buffer;
}

// " of env 'X'", if it is known.
std::string OfEnv(const EpisodeSet& set) {
  return set.env.empty() ? "" : absl::StrCat(" of env '", set.env, "'");
}

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
  return ProblemsToStatus(problems,
                          absl::StrCat("episodes", OfEnv(set), " do not fit env '", env.name, "'"));
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

// Appends next observation, reward and discount to the rows of these episodes: `taken` has them in
// the order of the file, with the fields of observation and action.
absl::StatusOr<Batch> AddTransitions(const Batch& taken, const SegmentBatch& set,
                                     const SpecPtr& observation, absl::Span<const int64_t> episodes,
                                     const TransitionOptions& options) {
  const std::optional<int> found = set.rows.spec().Find(kColumnReward);
  if (!found.has_value() || set.rows.spec().field(*found).dtype != DType::kFloat32 ||
      !set.rows.spec().field(*found).shape.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        found.has_value()
            ? absl::StrCat("its 'reward' is ", set.rows.spec().field(*found).DebugString())
            : std::string("it has no 'reward'"),
        ", but the policy learns from rewards: expected 'reward' float32[]"));
  }
  const int reward_field = *found;
  std::vector<FieldSpec> fields(taken.spec().fields().begin(), taken.spec().fields().end());
  const auto next_begin = static_cast<int>(fields.size());
  for (FieldSpec field : observation->fields()) {
    field.name = NextObsColumn(field.name);
    fields.push_back(std::move(field));
  }
  std::vector<int> final_fields;
  for (const FieldSpec& field : observation->fields()) {
    DING_ASSIGN_OR_RETURN(const int at, set.final_obs.spec().IndexOf(field.name, "final_obs"));
    final_fields.push_back(at);
  }
  const auto reward_at = static_cast<int>(fields.size());
  fields.push_back(Scalar(kColumnReward, DType::kFloat32));
  fields.push_back(Scalar(kColumnDiscount, DType::kFloat32));
  DING_ASSIGN_OR_RETURN(const SpecPtr spec, MakeSpec(std::move(fields)));
  DING_ASSIGN_OR_RETURN(BatchBuilder builder, BatchBuilder::Create(spec, taken.rows()));
  for (int i = 0; i < next_begin; ++i) {
    const absl::string_view bytes = taken.tensor(i).bytes();
    std::memcpy(builder.view().raw_column(i), bytes.data(), bytes.size());
  }
  const absl::Span<float> rewards = builder.column<float>(reward_at);
  const absl::Span<float> discounts = builder.column<float>(reward_at + 1);
  std::vector<int64_t> sorted(episodes.begin(), episodes.end());
  std::sort(sorted.begin(), sorted.end());
  int64_t begin = 0;
  for (const int64_t episode : sorted) {
    const Segment& segment = set.segments[static_cast<size_t>(episode)];
    const absl::Span<const float> reward =
        set.rows.column<float>(reward_field).subspan(segment.begin, segment.length);
    for (int64_t t = 0; t < segment.length; ++t) {
      const NStepReturn nstep =
          ComputeNStepReturn(reward.subspan(t), segment.end, options.nstep, options.gamma);
      rewards[begin + t] = nstep.reward;
      discounts[begin + t] = nstep.bootstrap_discount;
      const bool ends = t + nstep.steps == segment.length;
      for (int i = 0; i < observation->size(); ++i) {
        const int64_t bytes = observation->field(i).row_bytes();
        const Tensor& next = ends ? set.final_obs.tensor(final_fields[i]) : taken.tensor(i);
        const int64_t next_row = ends ? episode : begin + t + nstep.steps;
        const absl::string_view from = next.bytes().substr(static_cast<size_t>(next_row * bytes));
        std::memcpy(builder.view().raw_column(next_begin + i) + (begin + t) * bytes, from.data(),
                    static_cast<size_t>(bytes));
      }
    }
    begin += segment.length;
  }
  return std::move(builder).Seal(taken.rows());
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

// A truncated episode whose last observation allows no action counts as terminated, as collectors
// store it (collector/core/traj_buffer.h).
absl::Status EndWhereNothingIsLegal(const Spec& observation, const Spec& action,
                                    SegmentBatch* episodes) {
  DING_ASSIGN_OR_RETURN(const std::optional<int> mask_field, FindActionMask(observation, action));
  if (!mask_field.has_value()) return absl::OkStatus();
  DING_ASSIGN_OR_RETURN(const int field, episodes->final_obs.spec().IndexOf(
                                             observation.field(*mask_field).name, "final_obs"));
  const ColumnsView last = episodes->final_obs.view();
  const std::vector<int64_t> counts = CategoryCounts(action.field(0));
  for (size_t i = 0; i < episodes->segments.size(); ++i) {
    SegmentEnd& end = episodes->segments[i].end;
    const ColumnsView row = last.Slice(static_cast<int64_t>(i), 1);
    if (end != SegmentEnd::kTruncated || CheckLegal(ActionMaskOf(row, field), counts).ok())
      continue;
    end = SegmentEnd::kTerminated;
  }
  return absl::OkStatus();
}

absl::StatusOr<DataSet> MakeDataSet(const DataSetOptions& options, const EnvSpec* env,
                                    const EpisodeSet& set) {
  SegmentBatch episodes = set.episodes;
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
  DING_RETURN_IF_ERROR(EndWhereNothingIsLegal(*made.observation, *made.action, &episodes));
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
  if (options.transitions.has_value()) {
    DING_ASSIGN_OR_RETURN(made.training, AddTransitions(made.training, episodes, made.observation,
                                                        training, *options.transitions));
  }
  DING_ASSIGN_OR_RETURN(const Batch judged, TakeEpisodes(rows, episodes.segments, held_out, spec));
  DING_ASSIGN_OR_RETURN(made.held_out, MakeHeldOut(judged, made.action, made.observation->size()));
  made.checksum = set.checksum;
  made.description =
      absl::StrCat(training.size(), " episodes (", made.training.rows(), " rows)", OfEnv(set),
                   " to learn from, ", held_out.size(), " (", judged.rows(), " rows) held out");
  return made;
}

}  // namespace

absl::StatusOr<DataSet> LoadDataSet(const DataSetOptions& options, const EnvSpec* env) {
  const absl::StatusOr<EpisodeSet> set =
      IsDirectory(options.path) ? EpisodesOfRun(options.path) : EpisodesOfFile(options.path);
  if (absl::IsNotFound(set.status())) {
    return absl::NotFoundError(absl::StrCat(
        "data set: ", set.status().message(),
        "; two commands make one: tools/train worker/configs/cartpole_ppo.textproto "
        "--exp_dir=expert (or another config whose policy plays the env), then "
        "tools/evaluate expert --episodes=50 --record_episodes=",
        options.path, " (tools/train does both if a comment of the config says of which agent)"));
  }
  if (!set.ok()) return Annotate(set.status(), "data set");
  absl::StatusOr<DataSet> made = MakeDataSet(options, env, *set);
  if (made.ok()) return made;
  return Annotate(made.status(), absl::StrCat("data set '", options.path, "'"));
}

}  // namespace ding

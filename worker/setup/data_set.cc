#include "ding_worker/worker/setup/data_set.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
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
                       "' has no files *.episodes and no resume point, expected a folder of such "
                       "files, of a serial run or of one of its resume points"));
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

std::string Where(const std::string& path) { return absl::StrCat("data set '", path, "'"); }

// The files of a folder of episodes in the order of their names; empty if it is none.
absl::StatusOr<std::vector<std::string>> EpisodeFilesIn(const std::string& folder) {
  DING_ASSIGN_OR_RETURN(std::vector<std::string> names, ListDirectory(folder));
  std::vector<std::string> paths;
  for (const std::string& name : names) {
    if (absl::EndsWith(name, ".episodes")) paths.push_back(JoinPath(folder, name));
  }
  if (paths.empty()) return paths;
  for (const char* const of_run : {"manifest.json", "total_config.textproto"}) {
    if (!PathExists(JoinPath(folder, of_run))) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("data set: the folder '", folder, "' has both '", of_run, "' of a run and '",
                     paths[0], "', expected one of them: name the file, or move it away"));
  }
  return paths;
}

// " of env 'X'", if it is known.
std::string OfEnv(const std::string& env) {
  return env.empty() ? "" : absl::StrCat(" of env '", env, "'");
}

// The spaces that the files of a data set must have.
struct Spaces {
  SpecPtr observation;
  SpecPtr action;
  std::string of;  // "env 'Hopper-v4'", for errors
};

// Appends a sentence for each field of `wanted` that is missing from `rows`, or is different there.
void CompareFields(const Spec& wanted, const Spec& rows, std::vector<std::string>* problems) {
  for (const FieldSpec& want : wanted.fields()) {
    const std::optional<int> found = rows.Find(want.name);
    if (!found.has_value()) {
      problems->push_back(
          absl::StrCat("it has no '", want.name, "', expected ", want.DebugString()));
      continue;
    }
    FieldSpec have = rows.field(*found);
    // How a buffer may store the field does not matter here.
    have.frame_stack_axis = want.frame_stack_axis;
    if (have != want) {
      problems->push_back(absl::StrCat("its '", want.name, "' is ", have.DebugString(),
                                       ", expected ", want.DebugString()));
    }
  }
}

absl::Status CheckSpaces(const EpisodeIndex& file, const Spaces& spaces) {
  std::vector<std::string> problems;
  CompareFields(*spaces.observation, *file.rows, &problems);
  CompareFields(*spaces.action, *file.rows, &problems);
  for (const FieldSpec& field : file.final_obs->fields()) {
    if (spaces.observation->Find(field.name).has_value()) continue;
    problems.push_back(absl::StrCat("its observation has '", field.name, "' ", field.DebugString(),
                                    ", expected no such field"));
  }
  return ProblemsToStatus(problems,
                          absl::StrCat("episodes", OfEnv(file.env), " do not fit ", spaces.of));
}

// Returns the episode numbers in a random order; the first of them are held out.
std::vector<int64_t> OrderEpisodes(int64_t episodes, uint64_t seed) {
  std::vector<int64_t> order(static_cast<size_t>(episodes));
  std::iota(order.begin(), order.end(), int64_t{0});
  Rng rng(seed, "data_set/held_out");
  Shuffle(absl::MakeSpan(order), &rng);
  return order;
}

// Appends batches of these rows, whose field `action_field` is the label.
absl::Status AppendHeldOut(const Batch& rows, const SpecPtr& action, int action_field,
                           std::vector<LabelledBatch>* batches) {
  DING_ASSIGN_OR_RETURN(BatchBuilder labels, BatchBuilder::Create(action, rows.rows()));
  CopyRows(rows.view().Fields(action.get(), action_field), labels.view(), 0);
  const Batch label = std::move(labels).Seal(rows.rows());
  for (int64_t begin = 0; begin < rows.rows(); begin += kHeldOutBatchRows) {
    const int64_t count = std::min(kHeldOutBatchRows, rows.rows() - begin);
    batches->push_back({rows.Slice(begin, count), label.Slice(begin, count)});
  }
  return absl::OkStatus();
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

}  // namespace

class DataSetFiles : public std::enable_shared_from_this<DataSetFiles> {
 public:
  static absl::StatusOr<std::shared_ptr<DataSetFiles>> Open(const std::string& path,
                                                            const EnvSpec* env);

  // Splits the episodes, and returns the batches of those that are held out.
  absl::StatusOr<std::unique_ptr<IEvalData>> HoldOut(const DataSetOptions& options);

  // kInvalidArgument if a file has more rows to learn from. 0: any number is accepted.
  absl::Status CheckWindow(int64_t window_rows) const;

  // Returns the rows to learn from. They have the fields of observation and action and, with
  // `transitions`, those that TransitionsOf() names.
  absl::StatusOr<RowParts> Training(const std::optional<TransitionOptions>& transitions) const;

  const SpecPtr& observation() const { return spaces_.observation; }
  const SpecPtr& action() const { return spaces_.action; }
  uint32_t checksum() const;
  std::string Description() const;

 private:
  struct File {
    std::string path;
    EpisodeIndex index;
    std::vector<int64_t> training;  // episodes, in order
    std::vector<int64_t> held_out;
    // The episodes of a replay buffer: a run may go on, and replace the resume point that has it.
    std::optional<SegmentBatch> kept;
  };

  absl::Status SetSpaces(const EnvSpec* env);
  // Reads and checks the episodes of a file.
  absl::StatusOr<SegmentBatch> Read(const File& file) const;
  absl::StatusOr<Batch> Take(const SegmentBatch& episodes, absl::Span<const int64_t> taken) const;

  std::vector<File> files_;
  Spaces spaces_;
  SpecPtr spec_;  // the fields of the observation and the action
};

absl::StatusOr<std::shared_ptr<DataSetFiles>> DataSetFiles::Open(const std::string& path,
                                                                 const EnvSpec* env) {
  std::vector<std::string> paths = {path};
  if (IsDirectory(path)) {
    DING_ASSIGN_OR_RETURN(paths, EpisodeFilesIn(path));
  }
  auto opened = std::make_shared<DataSetFiles>();
  for (const std::string& file : paths) {
    absl::StatusOr<EpisodeIndex> index = ReadEpisodeIndex(file);
    if (absl::IsInvalidArgument(index.status()) && file == path) {
      paths.clear();  // It may be the file of a replay buffer.
      break;
    }
    if (!index.ok()) return Annotate(index.status(), "data set");
    opened->files_.push_back({file, *std::move(index), {}, {}, std::nullopt});
  }
  if (paths.empty()) {
    absl::StatusOr<EpisodeSet> set = IsDirectory(path) ? EpisodesOfRun(path) : EpisodesOfFile(path);
    if (!set.ok()) return Annotate(set.status(), "data set");
    SegmentBatch& episodes = set->episodes;
    opened->files_.push_back({path,
                              {set->env, episodes.rows.spec_ptr(), episodes.final_obs.spec_ptr(),
                               episodes.segments, set->checksum},
                              {},
                              {},
                              std::move(episodes)});
  }
  DING_RETURN_IF_ERROR(opened->SetSpaces(env));
  for (const File& file : opened->files_) {
    DING_RETURN_IF_ERROR(Annotate(CheckSpaces(file.index, opened->spaces_), Where(file.path)));
  }
  return opened;
}

absl::Status DataSetFiles::SetSpaces(const EnvSpec* env) {
  const EpisodeIndex& first = files_[0].index;
  if (env != nullptr) {
    spaces_ = {env->observation, env->action, absl::StrCat("env '", env->name, "'")};
  } else {
    DING_ASSIGN_OR_RETURN(const int action, first.rows->IndexOf(kColumnAction, "rows"));
    spaces_.observation = first.final_obs;
    DING_ASSIGN_OR_RETURN(spaces_.action, MakeSpec({first.rows->field(action)}));
    spaces_.of = absl::StrCat("those of '", files_[0].path, "'");
  }
  std::vector<FieldSpec> fields(spaces_.observation->fields().begin(),
                                spaces_.observation->fields().end());
  fields.push_back(spaces_.action->field(0));
  DING_ASSIGN_OR_RETURN(spec_, MakeSpec(std::move(fields)));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<IEvalData>> DataSetFiles::HoldOut(const DataSetOptions& options) {
  int64_t count = 0;
  for (const File& file : files_) count += static_cast<int64_t>(file.index.segments.size());
  if (count < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat(Where(options.path), " has ", count,
                     " episode, expected one to learn from and one to hold out at least"));
  }
  const auto held_out = static_cast<size_t>(std::clamp<int64_t>(
      std::llround(options.held_out * static_cast<double>(count)), 1, count - 1));
  const std::vector<int64_t> order = OrderEpisodes(count, options.seed);
  std::vector<bool> is_held_out(order.size());
  for (size_t i = 0; i < held_out; ++i) is_held_out[static_cast<size_t>(order[i])] = true;
  std::vector<LabelledBatch> batches;
  size_t number = 0;
  for (File& file : files_) {
    for (size_t i = 0; i < file.index.segments.size(); ++i, ++number) {
      (is_held_out[number] ? file.held_out : file.training).push_back(static_cast<int64_t>(i));
    }
    if (file.held_out.empty()) continue;
    DING_ASSIGN_OR_RETURN(const SegmentBatch episodes, Read(file));
    DING_ASSIGN_OR_RETURN(const Batch rows, Take(episodes, file.held_out));
    DING_RETURN_IF_ERROR(AppendHeldOut(rows, action(), observation()->size(), &batches));
  }
  return std::make_unique<EvalDataInMemory>(std::move(batches));
}

absl::Status DataSetFiles::CheckWindow(int64_t window_rows) const {
  for (const File& file : files_) {
    const int64_t rows = RowsOf(file.index.segments, file.training);
    if (window_rows == 0 || rows <= window_rows) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "data_set.window_rows is ", window_rows, ", but '", file.path, "' has ", rows,
        " rows to learn from, and a file is loaded as a whole: expected at least as many, or a "
        "folder of smaller files (python3 -m ding_worker.data_sets --rows_per_file)"));
  }
  return absl::OkStatus();
}

absl::StatusOr<SegmentBatch> DataSetFiles::Read(const File& file) const {
  const std::string where = Where(file.path);
  SegmentBatch episodes;
  if (file.kept.has_value()) {
    episodes = *file.kept;
  } else {
    absl::StatusOr<EpisodeSet> set = ReadEpisodes(file.path);
    if (!set.ok()) return Annotate(set.status(), "data set");
    if (set->checksum != file.index.checksum) {
      return absl::FailedPreconditionError(
          absl::StrCat(where, " has changed since the run began to read it: its checksum is ",
                       set->checksum, ", expected ", file.index.checksum));
    }
    episodes = std::move(set->episodes);
  }
  DING_RETURN_IF_ERROR(
      Annotate(EndWhereNothingIsLegal(*observation(), *action(), &episodes), where));
  ColumnBinding columns(spec_, "", "rows");
  DING_RETURN_IF_ERROR(Annotate(columns.Resolve(episodes.rows.spec()), where));
  DING_RETURN_IF_ERROR(Annotate(columns.CheckValues(columns.Bind(episodes.rows.view())), where));
  return episodes;
}

absl::StatusOr<Batch> DataSetFiles::Take(const SegmentBatch& episodes,
                                         absl::Span<const int64_t> taken) const {
  ColumnBinding columns(spec_, "", "rows");
  DING_RETURN_IF_ERROR(columns.Resolve(episodes.rows.spec()));
  return TakeEpisodes(columns.Bind(episodes.rows.view()), episodes.segments, taken, spec_);
}

absl::StatusOr<RowParts> DataSetFiles::Training(
    const std::optional<TransitionOptions>& transitions) const {
  RowParts parts;
  parts.spec = spec_;
  for (const File& file : files_) {
    parts.rows.push_back(RowsOf(file.index.segments, file.training));
    if (transitions.has_value()) {
      DING_RETURN_IF_ERROR(Annotate(CheckReward(*file.index.rows), Where(file.path)));
    }
  }
  if (transitions.has_value()) {
    DING_ASSIGN_OR_RETURN(parts.spec, WithTransitions(*spec_, *observation()));
  }
  parts.load = [self = shared_from_this(), transitions,
                spec = parts.spec](int64_t part) -> absl::StatusOr<Batch> {
    const File& file = self->files_[static_cast<size_t>(part)];
    DING_ASSIGN_OR_RETURN(const SegmentBatch episodes, self->Read(file));
    DING_ASSIGN_OR_RETURN(Batch rows, self->Take(episodes, file.training));
    if (!transitions.has_value()) return rows;
    return AddTransitions(rows, episodes, self->observation(), spec, file.training, *transitions);
  };
  return parts;
}

uint32_t DataSetFiles::checksum() const {
  if (files_.size() == 1) return files_[0].index.checksum;
  uint32_t crc = 0;
  for (const File& file : files_) {
    const uint32_t of_file = file.index.checksum;
    crc = Crc32c(absl::string_view(reinterpret_cast<const char*>(&of_file), sizeof(of_file)), crc);
  }
  return crc;
}

std::string DataSetFiles::Description() const {
  size_t training = 0;
  size_t held_out = 0;
  int64_t training_rows = 0;
  int64_t held_out_rows = 0;
  for (const File& file : files_) {
    training += file.training.size();
    held_out += file.held_out.size();
    training_rows += RowsOf(file.index.segments, file.training);
    held_out_rows += RowsOf(file.index.segments, file.held_out);
  }
  return absl::StrCat(training, " episodes (", training_rows, " rows)", OfEnv(files_[0].index.env),
                      " to learn from, ", held_out, " (", held_out_rows, " rows) held out",
                      files_.size() == 1 ? "" : absl::StrCat("; ", files_.size(), " files"));
}

namespace {

absl::StatusOr<DataSet> MakeDataSet(const DataSetOptions& options, const EnvSpec* env) {
  DING_ASSIGN_OR_RETURN(const std::shared_ptr<DataSetFiles> files,
                        DataSetFiles::Open(options.path, env));
  DataSet made;
  DING_ASSIGN_OR_RETURN(made.held_out, files->HoldOut(options));
  DING_RETURN_IF_ERROR(files->CheckWindow(options.window_rows));
  DING_ASSIGN_OR_RETURN(made.training, files->Training(/*transitions=*/std::nullopt));
  made.observation = files->observation();
  made.action = files->action();
  made.checksum = files->checksum();
  made.description = files->Description();
  made.files = files;
  return made;
}

}  // namespace

absl::StatusOr<DataSet> LoadDataSet(const DataSetOptions& options, const EnvSpec* env) {
  absl::StatusOr<DataSet> made = MakeDataSet(options, env);
  if (!absl::IsNotFound(made.status())) return made;
  return absl::NotFoundError(absl::StrCat(
      made.status().message(),
      "; two commands make one: tools/train worker/configs/cartpole_ppo.textproto "
      "--exp_dir=expert (or another config whose policy plays the env), then "
      "tools/evaluate expert --episodes=50 --record_episodes=",
      options.path, " (tools/train does both if a comment of the config says of which agent)"));
}

absl::StatusOr<RowParts> TransitionsOf(const DataSet& data, const TransitionOptions& options) {
  return data.files->Training(options);
}

}  // namespace ding

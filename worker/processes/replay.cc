#include "ding_worker/worker/processes/replay.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/learner/checkpoint.h"
#include "ding_worker/learner/comm/base_comm_learner.h"
#include "ding_worker/learner/comm/demand_source.h"
#include "ding_worker/learner/comm/item_loader.h"
#include "ding_worker/learner/comm/learner_slave.h"
#include "ding_worker/learner/comm/model_digest.h"
#include "ding_worker/learner/evaluation.h"
#include "ding_worker/learner/hook.h"
#include "ding_worker/learner/learner.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/coordination/parallel_run_folder.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/run_folder/run_folder.h"
#include "ding_worker/worker/tasks/configured_learner.h"
#include "ding_worker/worker/tasks/recording.h"
#include "ding_worker/worker/tasks/recording.pb.h"

namespace ding {
namespace {

// The chunks of a recording, to read only.
class RecordedStore : public Store {
 public:
  explicit RecordedStore(RecordingReader* recording) : recording_(recording) {}

  absl::Status Get(absl::string_view key, std::string* value) override {
    DING_ASSIGN_OR_RETURN(*value, recording_->Chunk(key));
    return absl::OkStatus();
  }
  absl::Status Put(absl::string_view, absl::Span<const absl::string_view>) override {
    return ReadOnly();
  }
  absl::Status Delete(absl::string_view) override { return ReadOnly(); }
  absl::StatusOr<std::vector<std::string>> List(absl::string_view) override { return ReadOnly(); }
  absl::Status Clear() override { return ReadOnly(); }
  const std::string& url() const override { return url_; }

 private:
  static absl::Status ReadOnly() {
    return absl::UnimplementedError("the chunks of a recording can only be read");
  }

  RecordingReader* const recording_;
  const std::string url_ = "recording:";
};

// The learner of one file of a recording.
class ReplayedLearner {
 public:
  ReplayedLearner(const ReplayOptions& options, RecordingReader* recording)
      : options_(options), recording_(*recording), store_(recording) {}

  // Adds to `report`, and says there whether all versions are the same.
  absl::Status Run(ReplayReport* report);

 private:
  absl::Status Make();
  // Goes through the events up to the next batch.
  absl::StatusOr<std::optional<TrainData>> Next();
  absl::StatusOr<std::optional<TrainData>> Load(const RecordedBatch& batch);
  absl::Status Compare(const RecordedVersion& version);

  const ReplayOptions& options_;
  RecordingReader& recording_;
  RecordedStore store_;
  std::unique_ptr<TaskLearner> made_;
  ILearner* learner_ = nullptr;
  std::unique_ptr<ItemLoader> loader_;
  int64_t versions_ = 0;
  std::string difference_;  // empty: none
  std::string end_;         // why the recording ends; empty: with the learner
};

absl::Status ReplayedLearner::Make() {
  const RecordedStart& start = recording_.start();
  DING_ASSIGN_OR_RETURN(ExperimentConfig config,
                        ParseExperimentConfig(start.config(), "the recorded config", {}));
  DING_ASSIGN_OR_RETURN(const std::string text, ReadRunConfig(options_.exp_dir));
  DING_ASSIGN_OR_RETURN(const ExperimentConfig of_run,
                        ParseExperimentConfig(text, "the run's config", {}));
  const absl::Status same = CheckSameExperiment(config, of_run);
  if (!same.ok()) {
    return absl::FailedPreconditionError(absl::StrCat("the recording is not of the config in '",
                                                      options_.exp_dir, "': ", same.message()));
  }
  DING_ASSIGN_OR_RETURN(
      config, ParseExperimentConfig(start.config(), "the recorded config", options_.settings));
  config.mutable_system()->clear_record_bytes();
  // The state below has what was loaded.
  config.mutable_policy()
      ->mutable_learn()
      ->mutable_learner()
      ->mutable_hook()
      ->clear_load_ckpt_before_run();
  LearnerTask task = start.task();
  task.clear_resume();
  ComponentDeps deps;
  deps.exp_dir = options_.out;
  DING_ASSIGN_OR_RETURN(
      made_, MakeTaskLearnerFactory(config, deps, start.place())(task, /*group=*/nullptr));
  learner_ = made_->learner();
  if (start.has_state()) DING_RETURN_IF_ERROR(DecodeLearner(start.state(), learner_));
  CommLearnerOptions options = MakeCommLearnerOptions(config);
  made_->ReadOptions(&options);
  DING_ASSIGN_OR_RETURN(loader_,
                        ItemLoader::Create(&store_, LoaderOptionsOf(options, made_.get())));
  return absl::OkStatus();
}

absl::Status ReplayedLearner::Run(ReplayReport* report) {
  DING_RETURN_IF_ERROR(Make());
  const int64_t begin = learner_->train_iter();
  DING_RETURN_IF_ERROR(learner_->Start([this] { return Next(); }));
  if (difference_.empty()) DING_RETURN_IF_ERROR(made_->SaveProgress());
  absl::StrAppend(&report->text, "iterations ", begin, " to ", learner_->train_iter(), ": ");
  if (difference_.empty()) {
    absl::StrAppend(&report->text, versions_, " versions have the same bytes\n");
  } else {
    absl::StrAppend(&report->text, difference_, "; the ", versions_,
                    " versions before it have the same bytes\n");
  }
  if (!end_.empty()) absl::StrAppend(&report->text, "the recording ends there: ", end_, "\n");
  report->same = difference_.empty();
  return absl::OkStatus();
}

absl::StatusOr<std::optional<TrainData>> ReplayedLearner::Next() {
  while (difference_.empty()) {
    DING_ASSIGN_OR_RETURN(const RecordedEvent* const event, recording_.Next());
    if (event == nullptr) break;
    if (event->has_batch()) {
      if (learner_->train_iter() >= options_.until_iter) break;
      return Load(event->batch());
    }
    if (event->has_version()) DING_RETURN_IF_ERROR(Compare(event->version()));
    if (event->has_evaluation()) {
      learner_->run_signals()->NoteEvaluation(EvaluationOf(event->evaluation()));
      DING_RETURN_IF_ERROR(learner_->CallHooks(HookPosition::kAfterEval));
    }
    if (event->has_end()) end_ = event->end();
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<TrainData>> ReplayedLearner::Load(const RecordedBatch& batch) {
  if (batch.train_iter() != learner_->train_iter()) {
    difference_ = absl::StrCat("the learner is in iteration ", learner_->train_iter(),
                               " before batch ", batch.number(), ", expected ", batch.train_iter());
    return std::nullopt;
  }
  DING_ASSIGN_OR_RETURN(const Batch items, DecodeBatch(batch.items()));
  DING_ASSIGN_OR_RETURN(LoadedItems loaded, loader_->Load(items));
  DING_RETURN_IF_ERROR(loaded.why_missing);
  TrainData data(std::move(loaded.batch), batch.envstep());
  data.settings = made_->LearnSettings(learner_->train_iter(), batch.envstep());
  return data;
}

absl::Status ReplayedLearner::Compare(const RecordedVersion& version) {
  DING_ASSIGN_OR_RETURN(const auto digests, TensorDigests(*learner_->policy()));
  const auto found = static_cast<int>(digests.size());
  if (found != version.tensor_crc_size()) {
    difference_ =
        absl::StrCat("the model has ", found, " tensors, expected ", version.tensor_crc_size());
    return absl::OkStatus();
  }
  std::vector<std::string> differ;
  for (int i = 0; i < found; ++i) {
    const auto& [name, crc] = digests[static_cast<size_t>(i)];
    if (crc != version.tensor_crc(i)) differ.push_back(name);
  }
  if (differ.empty()) {
    ++versions_;
    return absl::OkStatus();
  }
  difference_ = absl::StrCat("version ", version.version(), " of the policy (iteration ",
                             version.train_iter(), ") is the first that differs, in ",
                             differ.size(), " of ", found, " tensors, first in '", differ[0], "'");
  return absl::OkStatus();
}

absl::Status CheckEmpty(const std::string& folder) {
  std::error_code error;
  if (!PathExists(folder) || std::filesystem::is_empty(folder, error)) return absl::OkStatus();
  return absl::AlreadyExistsError(
      absl::StrCat("--out is '", folder, "', which is not an empty folder: expected a new one"));
}

}  // namespace

absl::StatusOr<ReplayReport> Replay(const ReplayOptions& options) {
  DING_ASSIGN_OR_RETURN(const std::vector<std::string> paths,
                        RecordingReader::Find(options.exp_dir));
  DING_RETURN_IF_ERROR(CheckEmpty(options.out));
  ReplayReport report;
  for (const std::string& path : paths) {
    DING_ASSIGN_OR_RETURN(const auto recording, RecordingReader::Open(path));
    if (recording->start().train_iter() >= options.until_iter) break;
    absl::StrAppend(&report.text, Basename(path), ": ");
    DING_RETURN_IF_ERROR(ReplayedLearner(options, recording.get()).Run(&report));
    if (!report.same) break;
  }
  return report;
}

absl::StatusOr<std::string> ShowIteration(const std::string& exp_dir, int64_t train_iter) {
  DING_ASSIGN_OR_RETURN(const std::vector<std::string> paths, RecordingReader::Find(exp_dir));
  std::map<int64_t, uint64_t> versions;  // by iteration
  std::optional<RecordedBatch> batch;
  int64_t reached = 0;  // iteration
  for (const std::string& path : paths) {
    DING_ASSIGN_OR_RETURN(const auto recording, RecordingReader::Open(path));
    while (true) {
      DING_ASSIGN_OR_RETURN(const RecordedEvent* const event, recording->Next());
      if (event == nullptr) break;
      if (event->has_version()) {
        versions[event->version().train_iter()] = event->version().version();
        reached = std::max(reached, event->version().train_iter());
      }
      if (!event->has_batch()) continue;
      reached = std::max(reached, event->batch().train_iter() + 1);
      // A later file goes on from an earlier iteration.
      if (event->batch().train_iter() < train_iter) batch = event->batch();
    }
  }
  if (!batch.has_value() || train_iter > reached) {
    return absl::NotFoundError(
        absl::StrCat("iteration ", train_iter, " of '", exp_dir, "' is not recorded"));
  }
  DING_ASSIGN_OR_RETURN(const Batch items, DecodeBatch(batch->items()));
  std::string text = absl::StrCat("batch ", batch->number(), ": after iteration ",
                                  batch->train_iter(), ", at env step ", batch->envstep(), "\n");
  absl::StrAppendFormat(&text, "%-20s %8s %8s  %-16s %s\n", "chunk", "row", "rows", "collector",
                        "policy version");
  const auto chunks = items.column<int64_t>(kColumnChunk);
  const std::optional<int> iters = items.spec().Find(kColumnCollectIter);
  for (size_t i = 0; i < chunks.size(); ++i) {
    std::string version = "?";
    if (iters.has_value()) {
      const int64_t iter = items.column<int64_t>(*iters)[i];
      const auto found = versions.find(iter);
      version = absl::StrCat(found == versions.end() ? "" : absl::StrCat(found->second),
                             " (iteration ", iter, ")");
    }
    absl::StrAppendFormat(&text, "%-20s %8d %8d  %-16s %s\n", ChunkKey(chunks[i]),
                          items.column<int64_t>(kColumnRow)[i],
                          items.column<int64_t>(kColumnLength)[i],
                          RecordedWorker(exp_dir, WorkerOfChunk(chunks[i])), version);
  }
  return text;
}

}  // namespace ding

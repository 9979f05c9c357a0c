// Tests learners that derive from BaseLearner or are composed of it, and the registry that makes
// them.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/learner/base_learner.h"
#include "ding_worker/learner/checkpoint.h"
#include "ding_worker/learner/evaluation.h"
#include "ding_worker/learner/hook.h"
#include "ding_worker/learner/learner.h"
#include "ding_worker/learner/learner.pb.h"
#include "ding_worker/learner/learner_registry.h"
#include "ding_worker/learner/testing/fake_learn_mode.h"
#include "ding_worker/learner/testing/own_learners.pb.h"
#include "ding_worker/metrics/averages.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/metrics/testing/recording_sink.h"
#include "ding_worker/policy/policy.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::SizeIs;

// Clips the loss and the priorities that the policy reports.
class ClipLearner : public BaseLearner {
 public:
  ClipLearner(Parts parts, double max) : BaseLearner(std::move(parts)), max_(max) {}

 protected:
  absl::Status Learn(const Batch& data, const NamedValues& settings,
                     std::vector<LearnStep>* steps) override {
    DING_RETURN_IF_ERROR(BaseLearner::Learn(data, settings, steps));
    for (LearnStep& step : *steps) {
      for (float& priority : step.priority) {
        priority = std::min(priority, static_cast<float>(max_));
      }
    }
    return absl::OkStatus();
  }

  absl::Status OnIteration(LearnStep* step) override {
    step->scalars.Set("total_loss", std::min(step->scalars.GetOr("total_loss", 0), max_));
    step->scalars.Set("seen_iter", static_cast<double>(train_iter()));
    return absl::OkStatus();
  }

 private:
  const double max_;
};

// Trains on the first of every n batches. A BaseLearner, its part, does the rest.
class SkipLearner : public ILearner {
 public:
  SkipLearner(std::unique_ptr<BaseLearner> base, int64_t every)
      : base_(std::move(base)), every_(every) {
    base_->set_outer(this);
  }

  absl::Status Train(const Batch& data, int64_t envstep, const NamedValues& settings) override {
    if (batches_++ % every_ != 0) return absl::OkStatus();
    return base_->Train(data, envstep, settings);
  }
  absl::Status SaveState(StateWriter* writer) const override {
    DING_RETURN_IF_ERROR(writer->WriteInt("batches", batches_));
    return base_->SaveState(writer);
  }
  absl::Status LoadState(StateReader* reader) override {
    DING_ASSIGN_OR_RETURN(const int64_t batches, reader->ReadInt("batches"));
    DING_RETURN_IF_ERROR(base_->LoadState(reader));
    batches_ = batches;
    return absl::OkStatus();
  }

  absl::Status Start(const DataSource& next_data, const RecoverFn& recover) override {
    return base_->Start(next_data, recover);
  }
  absl::Status CallHooks(HookPosition position) override { return base_->CallHooks(position); }
  void RegisterHook(std::shared_ptr<LearnerHook> hook) override {
    base_->RegisterHook(std::move(hook));
  }
  absl::Status SaveCheckpoint(absl::string_view name) override {
    return base_->SaveCheckpoint(name);
  }
  absl::Status LoadCheckpoint(const std::string& path) override {
    return base_->LoadCheckpoint(path);
  }
  void set_checkpoint_fn(CheckpointFn fn) override { base_->set_checkpoint_fn(std::move(fn)); }
  std::string CheckpointPath(absl::string_view name) const override {
    return base_->CheckpointPath(name);
  }
  absl::Status SetProgress(int64_t train_iter, int64_t envstep) override {
    return base_->SetProgress(train_iter, envstep);
  }
  LearnInfo learn_info() const override { return base_->learn_info(); }
  int64_t train_iter() const override { return base_->train_iter(); }
  int64_t collector_envstep() const override { return base_->collector_envstep(); }
  LearnMode* policy() const override { return base_->policy(); }
  ProcessGroup* group() const override { return base_->group(); }
  const ComponentDeps& deps() const override { return base_->deps(); }
  RunSignals* run_signals() override { return base_->run_signals(); }
  LearnStep* current_step() override { return base_->current_step(); }
  bool at_end_of_batch() const override { return base_->at_end_of_batch(); }
  int64_t batch_begin_iter() const override { return base_->batch_begin_iter(); }
  bool monitors() const override { return base_->monitors(); }
  Monitor* monitor() override { return base_->monitor(); }
  const Monitor& timings() const override { return base_->timings(); }

 private:
  const std::unique_ptr<BaseLearner> base_;
  const int64_t every_;
  int64_t batches_ = 0;
};

template <typename Message>
absl::StatusOr<Message> ReadParams(const LearnerConfig& config) {
  Message params;
  if (!config.has_params() || config.params().UnpackTo(&params)) return params;
  return absl::InvalidArgumentError(
      absl::StrCat("params: expected a ", Message::descriptor()->full_name()));
}

absl::StatusOr<std::unique_ptr<ILearner>> MakeClipLearner(const LearnerConfig& config,
                                                          LearnMode* policy,
                                                          const ComponentDeps& deps,
                                                          ProcessGroup* group) {
  DING_ASSIGN_OR_RETURN(const ClipLearnerConfig params, ReadParams<ClipLearnerConfig>(config));
  DING_ASSIGN_OR_RETURN(BaseLearner::Parts parts,
                        ReadBaseLearnerParts(config, policy, deps, group));
  return std::make_unique<ClipLearner>(std::move(parts), params.max());
}

absl::StatusOr<std::unique_ptr<ILearner>> MakeSkipLearner(const LearnerConfig& config,
                                                          LearnMode* policy,
                                                          const ComponentDeps& deps,
                                                          ProcessGroup* group) {
  DING_ASSIGN_OR_RETURN(const SkipLearnerConfig params, ReadParams<SkipLearnerConfig>(config));
  DING_ASSIGN_OR_RETURN(BaseLearner::Parts parts,
                        ReadBaseLearnerParts(config, policy, deps, group));
  DING_ASSIGN_OR_RETURN(std::unique_ptr<BaseLearner> base, BaseLearner::Create(std::move(parts)));
  return std::make_unique<SkipLearner>(std::move(base), params.every());
}

DING_REGISTER(LearnerRegistry(), "clip", MakeClipLearner, "limits the values of a batch");
DING_REGISTER(LearnerRegistry(), "skip", MakeSkipLearner, "skips some batches");

constexpr char kNoHooks[] =
    "hook { log_show_after_iter: 0 save_ckpt_after_iter: 0 save_ckpt_after_run: false }";

class OwnLearnerTest : public testing::Test {
 protected:
  OwnLearnerTest() {
    deps_.exp_dir = FreshTestFolder();
    deps_.name = "learner";
    deps_.metrics = sink_;
  }

  absl::StatusOr<std::unique_ptr<ILearner>> Make(const std::string& text) {
    LearnerConfig config;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &config)) << text;
    return create_learner(config, &policy_, deps_);
  }
  static Batch ThreeRows() {
    const SpecPtr spec = *MakeSpec({Box("obs", {1})});
    BatchBuilder builder = *BatchBuilder::Create(spec, 3);
    std::fill(builder.column<float>(0).begin(), builder.column<float>(0).end(), 0.f);
    return std::move(builder).Seal(3);
  }
  // A source of `count` batches.
  static ILearner::DataSource Batches(int count) {
    return [count, given = 0]() mutable -> absl::StatusOr<std::optional<TrainData>> {
      if (given++ == count) return std::nullopt;
      return TrainData(ThreeRows());
    };
  }
  std::vector<double> Logged(absl::string_view tag) const {
    std::vector<double> values;
    for (const auto& record : sink_->scalars()) {
      if (record.tag == tag) values.push_back(record.value);
    }
    return values;
  }

  FakeLearnMode policy_;
  std::shared_ptr<RecordingSink> sink_ = std::make_shared<RecordingSink>();
  ComponentDeps deps_;
};

TEST_F(OwnLearnerTest, ADerivedLearnerChangesWhatIsReported) {
  DING_ASSERT_OK_AND_ASSIGN(
      const std::unique_ptr<ILearner> learner,
      Make(
          R"(type: "clip" monitor_window: 1 hook { log_show_after_iter: 1 save_ckpt_after_run: false }
              params { [type.googleapis.com/ding.ClipLearnerConfig] { max: 0.4 } })"));
  policy_.report_priority = true;  // They are 0.5; the losses are 1, 1/2, 1/3.
  policy_.steps_per_batch = 3;
  ASSERT_THAT(learner->Train(ThreeRows()), IsOk());
  EXPECT_THAT(Logged("learner_iter/total_loss_avg"), ElementsAre(0.4, 0.4, 1. / 3));
  EXPECT_THAT(Logged("learner_iter/seen_iter_avg"), ElementsAre(1, 2, 3));
  ASSERT_TRUE(learner->learn_info().priority_info.has_value());
  EXPECT_THAT(learner->learn_info().priority_info->priority, ElementsAre(0.4f, 0.4f, 0.4f));
}

TEST_F(OwnLearnerTest, ParamsMayBeLeftOut) {
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ILearner> learner,
                            Make(absl::StrCat("type: 'skip' ", kNoHooks)));
  ASSERT_THAT(learner->Start(Batches(4)), IsOk());
  EXPECT_EQ(learner->train_iter(), 2);
}

// Records which learner it is called with.
std::shared_ptr<LearnerHook> Recording(HookPosition position, std::vector<LearnerView*>* learners) {
  return std::make_shared<FunctionHook>(position, [learners](LearnerView* learner) {
    learners->push_back(learner);
    return absl::OkStatus();
  });
}

TEST_F(OwnLearnerTest, AComposedLearnerIsTheOneThatHooksAndStartUse) {
  DING_ASSERT_OK_AND_ASSIGN(
      const std::unique_ptr<ILearner> learner,
      Make(absl::StrCat("type: 'skip' params { "
                        "[type.googleapis.com/ding.SkipLearnerConfig] { every: 3 } } ",
                        kNoHooks)));
  std::vector<LearnerView*> seen;
  for (const HookPosition position : {HookPosition::kBeforeRun, HookPosition::kAfterIter}) {
    learner->RegisterHook(Recording(position, &seen));
  }
  ASSERT_THAT(learner->Start(Batches(7)), IsOk());
  EXPECT_EQ(learner->train_iter(), 3);
  EXPECT_THAT(seen, AllOf(SizeIs(4), testing::Each(learner.get())));
}

TEST_F(OwnLearnerTest, ACheckpointHasTheStateOfAComposedLearner) {
  {
    DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ILearner> learner,
                              Make("type: 'skip' hook { save_ckpt_after_iter: 0 }"));
    ASSERT_THAT(learner->Start(Batches(5)), IsOk());
    EXPECT_EQ(learner->train_iter(), 3);
  }
  DING_ASSERT_OK_AND_ASSIGN(
      const std::unique_ptr<ILearner> resumed,
      Make(absl::StrCat("type: 'skip' hook { save_ckpt_after_iter: 0 load_ckpt_before_run: '",
                        deps_.exp_dir, "/ckpt/iteration_3' }")));
  // The sixth batch is skipped; the seventh is not.
  ASSERT_THAT(resumed->Start(Batches(1)), IsOk());
  EXPECT_EQ(resumed->train_iter(), 3);
  ASSERT_THAT(resumed->Train(ThreeRows()), IsOk());
  EXPECT_EQ(resumed->train_iter(), 4);
}

// Calls a function of the test at each of the functions that a derived class may override.
class FaultyLearner : public BaseLearner {
 public:
  using Fault = std::function<absl::Status()>;

  explicit FaultyLearner(Parts parts) : BaseLearner(std::move(parts)) {}

  absl::Status Train(const Batch& data, int64_t envstep = -1,
                     const NamedValues& settings = {}) override {
    DING_RETURN_IF_ERROR(in_train());
    return BaseLearner::Train(data, envstep, settings);
  }

  absl::Status SaveState(StateWriter* writer) const override {
    DING_RETURN_IF_ERROR(in_state());
    return BaseLearner::SaveState(writer);
  }
  absl::Status LoadState(StateReader* reader) override {
    DING_RETURN_IF_ERROR(in_state());
    return BaseLearner::LoadState(reader);
  }

  Fault in_train = absl::OkStatus;
  Fault in_state = absl::OkStatus;
  Fault in_learn = absl::OkStatus;
  Fault in_iteration = absl::OkStatus;
  bool skip = false;

 protected:
  absl::Status Learn(const Batch& data, const NamedValues& settings,
                     std::vector<LearnStep>* steps) override {
    DING_RETURN_IF_ERROR(in_learn());
    if (!skip) return BaseLearner::Learn(data, settings, steps);
    steps->clear();
    return absl::OkStatus();
  }
  absl::Status OnIteration(LearnStep* /*step*/) override { return in_iteration(); }
};

class FaultyLearnerTest : public OwnLearnerTest {
 protected:
  FaultyLearnerTest() : learner_(MakeParts()) {}

  BaseLearner::Parts MakeParts() {
    BaseLearner::Parts parts;
    parts.policy = &policy_;
    parts.deps = deps_;
    return parts;
  }
  static absl::Status Throw() { throw std::runtime_error("out of ideas"); }

  FaultyLearner learner_;
};

TEST_F(FaultyLearnerTest, AnErrorOfTheStepsChangesNothing) {
  ASSERT_THAT(learner_.Train(ThreeRows()), IsOk());
  learner_.in_learn = [] { return absl::InternalError("no steps"); };
  EXPECT_THAT(learner_.Train(ThreeRows()), IsInternal("learner: train iteration 2: no steps"));
  learner_.in_learn = Throw;
  EXPECT_THAT(learner_.Train(ThreeRows()),
              IsInternal("learner: train iteration 2: Learn() threw an exception: out of ideas"));
  EXPECT_EQ(learner_.train_iter(), 1);
}

TEST_F(FaultyLearnerTest, AnErrorOfAnIterationNamesIt) {
  ASSERT_THAT(learner_.Train(ThreeRows()), IsOk());
  std::vector<LearnerView*> seen;
  learner_.RegisterHook(Recording(HookPosition::kAfterIter, &seen));
  learner_.in_iteration = [] { return absl::DataLossError("a value is missing"); };
  EXPECT_THAT(learner_.Train(ThreeRows()), IsDataLoss("learner: iteration 2: a value is missing"));
  learner_.in_iteration = Throw;
  EXPECT_THAT(learner_.Train(ThreeRows()),
              IsInternal("learner: iteration 3: OnIteration() threw an exception"));
  EXPECT_THAT(seen, SizeIs(0));
}

TEST_F(FaultyLearnerTest, AnExceptionOfTrainCanBeRecoveredFrom) {
  learner_.in_train = Throw;
  EXPECT_THAT(learner_.Start(Batches(2)), IsInternal("Train() threw an exception: out of ideas"));
  int recovered = 0;
  const auto recover = [&](const absl::Status& why) {
    EXPECT_THAT(why, IsInternal("out of ideas"));
    ++recovered;
    return absl::OkStatus();
  };
  EXPECT_THAT(learner_.Start(Batches(2), recover), IsOk());
  EXPECT_EQ(recovered, 2);
}

TEST_F(FaultyLearnerTest, AnExceptionOfTheStateIsAnErrorOfTheCheckpoint) {
  ASSERT_THAT(learner_.SaveCheckpoint("good"), IsOk());
  learner_.in_state = Throw;
  EXPECT_THAT(learner_.SaveCheckpoint("bad"),
              IsInternal("the learner threw an exception: out of ideas"));
  EXPECT_THAT(LoadLearnerCheckpoint(learner_.CheckpointPath("good"), &learner_),
              IsInternal("the learner threw an exception: out of ideas"));
}

TEST_F(FaultyLearnerTest, ABatchWithoutStepsIsSkipped) {
  policy_.report_priority = true;
  ASSERT_THAT(learner_.Train(ThreeRows(), 8), IsOk());
  std::vector<LearnerView*> seen;
  learner_.RegisterHook(Recording(HookPosition::kAfterIter, &seen));
  const std::optional<double> train_time = learner_.timings().Average("train_time");
  learner_.skip = true;
  ASSERT_THAT(learner_.Train(ThreeRows(), 16), IsOk());
  EXPECT_EQ(learner_.train_iter(), 1);
  EXPECT_EQ(learner_.collector_envstep(), 16);
  EXPECT_EQ(learner_.timings().Average("train_time"), train_time);
  EXPECT_FALSE(learner_.learn_info().priority_info.has_value());
  EXPECT_THAT(seen, SizeIs(0));
}

TEST_F(OwnLearnerTest, TypeBaseRefusesParams) {
  EXPECT_THAT(Make("params { [type.googleapis.com/ding.SkipLearnerConfig] {} }"),
              IsInvalid("but type 'base' takes none"));
}

TEST_F(OwnLearnerTest, TheErrorsOfAFactoryAreReturned) {
  EXPECT_THAT(Make("type: 'skip' params { [type.googleapis.com/ding.ClipLearnerConfig] {} }"),
              IsInvalid("expected a ding.SkipLearnerConfig"));
  EXPECT_THAT(Make("type: 'clip' monitor_window: 0"), IsInvalid("monitor_window is 0"));
  EXPECT_THAT(Make("type: 'clip' hook { hook { type: 'no_such' } }"), IsInvalid("no_such"));
}

TEST_F(OwnLearnerTest, AFactoryThatReturnsNoneOrThrowsIsNamed) {
  const ScopedRegistration<LearnerCreator> none(
      &LearnerRegistry(), "none",
      [](const LearnerConfig&, LearnMode*, const ComponentDeps&, ProcessGroup*) {
        return std::unique_ptr<ILearner>();
      });
  EXPECT_THAT(Make("type: 'none'"), IsInternal("the factory of learner 'none' returned none"));
  const ScopedRegistration<LearnerCreator> throwing(
      &LearnerRegistry(), "throwing",
      [](const LearnerConfig&, LearnMode*, const ComponentDeps&,
         ProcessGroup*) -> absl::StatusOr<std::unique_ptr<ILearner>> {
        throw std::runtime_error("out of ideas");
      });
  EXPECT_THAT(Make("type: 'throwing'"),
              IsInternal("the factory of learner 'throwing' threw an exception: out of ideas"));
}

}  // namespace
}  // namespace ding

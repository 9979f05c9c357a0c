// A learner worker that overrides the steps of BaseCommLearner.
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/segment_wire.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/interaction/testing/fake_coordinator.h"
#include "ding_worker/learner/async_data_loader.h"
#include "ding_worker/learner/comm/base_comm_learner.h"
#include "ding_worker/learner/comm/demand_source.h"
#include "ding_worker/learner/comm/group_member.h"
#include "ding_worker/learner/comm/task_learner.h"
#include "ding_worker/learner/hook.h"
#include "ding_worker/learner/learner.h"
#include "ding_worker/learner/testing/comm_learner_test_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

// Overrides each step, and notes it.
class OwnStepsLearner : public BaseCommLearner {
 public:
  using BaseCommLearner::BaseCommLearner;

  std::function<absl::Status(const std::string& step)>
      on_step;          // its errors are those of the steps
  bool reports = true;  // whether hooks report progress
  std::atomic<int64_t> loaded_rows{0};

  int64_t Calls(const std::string& step) {
    MutexLock lock(&mutex_);
    return steps_[step];
  }

 private:
  absl::Status Note(const std::string& step) {
    {
      MutexLock lock(&mutex_);
      ++steps_[step];
    }
    return on_step == nullptr ? absl::OkStatus() : on_step(step);
  }
  absl::StatusOr<std::unique_ptr<TaskLearner>> CreateLearner(const LearnerTask& task,
                                                             GroupMember* group) override {
    const absl::Status status = Note("CreateLearner");
    if (absl::IsNotFound(status)) return nullptr;
    DING_RETURN_IF_ERROR(status);
    return BaseCommLearner::CreateLearner(task, group);
  }
  absl::StatusOr<std::vector<std::shared_ptr<LearnerHook>>> Hooks4Call() override {
    DING_RETURN_IF_ERROR(Note("Hooks4Call"));
    DING_ASSIGN_OR_RETURN(auto hooks, BaseCommLearner::Hooks4Call());
    if (!reports) hooks.resize(2);
    return hooks;
  }
  absl::StatusOr<std::optional<BatchLoader>> GetData(DemandSource* source) override {
    DING_RETURN_IF_ERROR(Note("GetData"));
    DING_ASSIGN_OR_RETURN(const std::optional<BatchLoader> load, BaseCommLearner::GetData(source));
    if (!load.has_value()) return std::nullopt;
    return BatchLoader([this, load = *load]() -> absl::StatusOr<TrainData> {
      DING_ASSIGN_OR_RETURN(TrainData data, load());
      loaded_rows += data.batch.rows();
      return data;
    });
  }
  absl::Status SendPolicy(const PolicyVersion& version, const EncodedBatch& model) override {
    DING_RETURN_IF_ERROR(Note("SendPolicy"));
    PolicyVersion elsewhere = version;
    elsewhere.set_key("own/" + version.key());
    return BaseCommLearner::SendPolicy(elsewhere, model);
  }
  absl::Status ReadPolicy(const PolicyVersion& version, std::string* model) override {
    DING_RETURN_IF_ERROR(Note("ReadPolicy"));
    PolicyVersion elsewhere = version;
    elsewhere.set_key("own/" + version.key());
    return BaseCommLearner::ReadPolicy(elsewhere, model);
  }
  absl::Status SendLearnInfo(LearnerInfo info) override {
    DING_RETURN_IF_ERROR(Note("SendLearnInfo"));
    info.add_value()->set_name("own");
    return BaseCommLearner::SendLearnInfo(std::move(info));
  }

  Mutex mutex_;
  std::map<std::string, int64_t> steps_ ABSL_GUARDED_BY(mutex_);
};

class OwnStepsTest : public BaseCommLearnerTest {
 protected:
  OwnStepsTest() {
    EXPECT_THAT(store_.Put(ChunkKey(kChunk), EncodedSegments(OneRow()).pieces()), IsOk());
    auto own = std::make_unique<OwnStepsLearner>(
        options_, worker_.get(), &store_, [this](const LearnerTask&, GroupMember*) {
          return std::make_unique<FakeTask>(train_iterations_, &mode_, &checkpoints_);
        });
    own_ = own.get();
    learner_ = std::move(own);
  }
  Heard RunTask() {
    if (!running_.joinable()) running_ = std::thread([this] { end_ = learner_->Run(); });
    coordinator_.StartLearner("a");
    return ServeTask();
  }
  OwnStepsLearner* own_ = nullptr;
};

TEST_F(OwnStepsTest, AreCalledInATask) {
  const Heard heard = RunTask();
  ASSERT_THAT(heard.infos, SizeIs(6)) << heard.end.task_failed().message();
  EXPECT_TRUE(heard.infos.back().learner_done());
  EXPECT_EQ(heard.infos[0].value().rbegin()->name(), "own");
  EXPECT_THAT(heard.versions, ElementsAre(1, 2, 3));
  std::string model;
  EXPECT_THAT(store_.Get("own/" + PolicyKey("policy_0", 3, FakeCoordinator::kWorker), &model),
              IsOk());
  EXPECT_EQ(own_->Calls("CreateLearner"), 1);
  EXPECT_EQ(own_->Calls("Hooks4Call"), 1);
  EXPECT_GE(own_->Calls("GetData"), 5);
  EXPECT_GE(own_->loaded_rows, 5);
  EXPECT_EQ(own_->Calls("SendPolicy"), 3);
  EXPECT_EQ(own_->Calls("SendLearnInfo"), 6);
}

TEST_F(OwnStepsTest, ErrorsAndExceptions_FailTheTask) {
  std::string failing;
  bool throws = false;
  own_->on_step = [&](const std::string& step) -> absl::Status {
    if (step != failing) return absl::OkStatus();
    if (throws) throw std::runtime_error("odd");
    return absl::InternalError("odd");
  };
  for (const char* const step :
       {"CreateLearner", "Hooks4Call", "GetData", "SendPolicy", "SendLearnInfo"}) {
    for (const bool exception : {false, true}) {
      failing = step;
      throws = exception;
      EXPECT_THAT(RunTask().end.task_failed().message(), HasSubstr("odd")) << step;
    }
  }
}

TEST_F(OwnStepsTest, CreateLearnerThatMakesNone_FailsTheTask) {
  own_->on_step = [](const std::string&) { return absl::NotFoundError("none"); };
  EXPECT_EQ(RunTask().end.task_failed().message(), "CreateLearner() has returned no learner");
}

TEST_F(OwnStepsTest, AnEndThatIsNotReported_FailsTheTask) {
  own_->reports = false;
  EXPECT_THAT(RunTask().end.task_failed().message(),
              HasSubstr("the learner has ended and not reported it"));
}

}  // namespace
}  // namespace ding

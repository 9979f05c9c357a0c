#include "ding_worker/interaction/control/protocol.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <tuple>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_matchers.h"
#include "gmock/gmock.h"
#include "google/protobuf/unknown_field_set.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(ProtocolTest, AcceptsAnotherMinorAndRefusesAnotherMajor) {
  ProtocolVersion version = CurrentProtocol();
  EXPECT_THAT(CheckProtocol(version), IsOk());
  version.set_minor(kProtocolMinor + 1);
  EXPECT_THAT(CheckProtocol(version), IsOk());
  version.set_major(kProtocolMajor + 1);
  version.set_minor(3);
  EXPECT_THAT(CheckProtocol(version), StatusIs(absl::StatusCode::kFailedPrecondition,
                                               AllOf(HasSubstr("3.3"), HasSubstr("2.x"))));
  EXPECT_THAT(CheckProtocol(ProtocolVersion()), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST(ProtocolTest, ParsesValidMessagesAndRefusesOthers) {
  WorkerMessage message;
  message.mutable_task_started()->set_task_id("task_0");
  DING_ASSERT_OK_AND_ASSIGN(const WorkerMessage read,
                            ParseWorkerMessage(message.SerializeAsString()));
  EXPECT_EQ(read.task_started().task_id(), "task_0");
  EXPECT_THAT(ParseWorkerMessage(""), StatusIs(absl::StatusCode::kInvalidArgument,
                                               HasSubstr("empty message from a worker")));
  EXPECT_THAT(ParseCoordinatorMessage("\xff\xff"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("from a coordinator: cannot parse 2 bytes as a message")));
}

// What a coordinator of a later version says beyond what an older `ctl` knows.
TEST(ProtocolTest, FieldsOfALaterVersionAreLeftOut) {
  CoordinatorMessage message;
  WorkerStatus* const worker = message.mutable_run_status()->add_worker();
  worker->set_name("collector-0");
  google::protobuf::UnknownFieldSet* const later =
      worker->GetReflection()->MutableUnknownFields(worker);
  later->AddFixed64(999, 1);
  later->AddLengthDelimited(998, "what is this");
  DING_ASSERT_OK_AND_ASSIGN(const CoordinatorMessage read,
                            ParseCoordinatorMessage(message.SerializeAsString()));
  ASSERT_EQ(read.run_status().worker_size(), 1);
  EXPECT_EQ(read.run_status().worker(0).name(), "collector-0");
}

// The 16 MB of empty strings would become half a gigabyte when they are parsed.
TEST(ProtocolTest, AMessageThatNeedsTooMuchMemoryIsNotParsed) {
  std::string bytes(size_t{1} << 24, '\0');
  for (size_t i = 0; i < bytes.size(); i += 2) bytes[i] = (3 << 3) | 2;  // LearnerData.items, ""
  // LearnerData of CoordinatorMessage, whose length is a varint of four bytes.
  const size_t size = bytes.size() - 6;
  const char head[] = {(5 << 3) | 2, static_cast<char>(size | 0x80),
                       static_cast<char>(size >> 7 | 0x80), static_cast<char>(size >> 14 | 0x80),
                       static_cast<char>(size >> 21)};
  bytes.resize(size);
  bytes.insert(0, head, sizeof(head));
  EXPECT_THAT(ParseCoordinatorMessage(bytes),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("it may take more than 67108864 bytes")));
}

TEST(ProtocolTest, ADemandOutOfRangeIsRefused) {
  LearnerDemand demand;
  for (const auto& [batch_size, batches, ok] : {std::tuple<int64_t, int32_t, bool>(2, 3, true),
                                                {0, 1, false},
                                                {2, 0, false},
                                                {int64_t{1} << 60, 8, false},
                                                {1 << 20, 4, true},
                                                {1 << 20, 5, false}}) {
    demand.set_batch_size(batch_size);
    demand.set_batches(batches);
    EXPECT_EQ(CheckDemand(demand).ok(), ok) << batches << " of " << batch_size;
  }
  EXPECT_THAT(CheckDemand(demand),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a demand for 5 batches")));
}

TEST(ProtocolTest, AReportNeedsAnIdAndAPlaceForEachPriority) {
  LearnerInfo info;
  EXPECT_THAT(CheckLearnerInfo(info), IsOk());
  info.add_priority(1);
  info.add_replay_unique_id(2);
  EXPECT_THAT(CheckLearnerInfo(info), StatusIs(absl::StatusCode::kInvalidArgument,
                                               HasSubstr("1 priorities for 1 ids and 0 places")));
  info.add_replay_buffer_idx(3);
  EXPECT_THAT(CheckLearnerInfo(info), IsOk());
  info.set_learner_step(-1);
  EXPECT_THAT(CheckLearnerInfo(info),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("-1 steps")));
}

TEST(ProtocolTest, AVersionAfterWhichThereIsNoRoomIsRefused) {
  EXPECT_THAT(CheckVersion(0), IsOk());
  EXPECT_THAT(CheckVersion(uint64_t{1} << 60), IsOk());
  EXPECT_THAT(CheckVersion((uint64_t{1} << 60) + 1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("expected at most")));
}

TEST(ProtocolTest, SettingsKeepNamesAndOrder) {
  const NamedValues values = {{"eps", 0.9}, {"alpha", -1}};
  Settings settings;
  settings.Add();  // ToSettings() must replace it
  ToSettings(values, &settings);
  const NamedValues back = FromSettings(settings);
  EXPECT_EQ(back.Get("eps"), 0.9);
  EXPECT_EQ(back.Get("alpha"), -1);
  EXPECT_EQ(settings.size(), 2);
}

TEST(ProtocolTest, RolesHaveNames) {
  EXPECT_EQ(RoleName(Hello::COLLECTOR), "collector");
  EXPECT_EQ(RoleName(Hello::LEARNER), "learner");
  EXPECT_EQ(RoleName(Hello::OPERATOR), "operator");
}

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Expects that `check` accepts `good`, and refuses it after `change` with an error that contains
// `says`.
template <typename Message>
void ExpectRefused(const Message& good, absl::Status (*check)(const Message&),
                   const std::function<void(Message*)>& change, const std::string& says) {
  EXPECT_THAT(check(good), IsOk());
  Message bad = good;
  change(&bad);
  EXPECT_THAT(check(bad), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(says)));
}

TEST(ForPeopleTest, MakesOneLineOfLimitedLength) {
  EXPECT_EQ(ForPeople("the store is full"), "the store is full");
  EXPECT_EQ(ForPeople("a\nb\x1b[2Jc\x7f"), "a b [2Jc ");
  EXPECT_EQ(ForPeople(std::string(100000, 'x')).size(), kMaxTextBytes + 4);
}

TEST(CheckHelloFieldsTest, RefusesInvalidNamesAndResources) {
  Hello hello;
  hello.set_name("collector-0");
  const auto refused = [&hello](const std::function<void(Hello*)>& change,
                                const std::string& says) {
    ExpectRefused(hello, &CheckHelloFields, change, says);
  };
  refused([](Hello* bad) { bad->set_name(std::string(129, 'x')); }, "129 bytes");
  refused([](Hello* bad) { bad->set_name("a\nI1122 all is well"); }, "control characters");
  for (const char* name : {"a/b", "../a", ".a", "coordinator", "metrics", "events", "a_events"}) {
    refused([name](Hello* bad) { bad->set_name(name); }, absl::StrCat("'", name, "': its logs"));
  }
  refused([](Hello* bad) { bad->mutable_resources()->set_cpus(kNaN); }, "nan cores");
  refused([](Hello* bad) { bad->mutable_resources()->set_cpus(kInf); }, "inf cores");
  refused([](Hello* bad) { bad->mutable_resources()->set_memory_bytes(-1); }, "-1 bytes");
  refused([](Hello* bad) { bad->mutable_resources()->set_gpus(-1); }, "-1 GPUs");
}

TEST(CheckProgressTest, RefusesCountsOutOfRange) {
  constexpr int64_t kMany = int64_t{1} << 41;
  const auto refused = [](const std::function<void(ProgressReport*)>& change,
                          const std::string& says) {
    ExpectRefused(ProgressReport(), &CheckProgress, change, says);
  };
  refused([](ProgressReport* bad) { bad->set_cur_step(kMany); }, "steps");
  refused([](ProgressReport* bad) { bad->set_cur_step(-1); }, "-1 steps");
  refused([](ProgressReport* bad) { bad->set_cur_sample(kMany); }, "samples");
  refused([](ProgressReport* bad) { bad->set_cur_episode(-1); }, "episodes");
}

TEST(CheckCollectorFinishedTest, RefusesInvalidCountsAndReturns) {
  CollectorFinished info;
  info.set_step_count(10);
  info.set_train_iter(-1);
  info.add_episode_return(-3.5);
  const auto refused = [&info](const std::function<void(CollectorFinished*)>& change,
                               const std::string& says) {
    ExpectRefused(info, &CheckCollectorFinished, change, says);
  };
  refused([](CollectorFinished* bad) { bad->set_step_count(-1); }, "-1 steps");
  refused([](CollectorFinished* bad) { bad->set_sample_count(-1); }, "samples");
  refused([](CollectorFinished* bad) { bad->set_env_num(-1); }, "envs");
  refused([](CollectorFinished* bad) { bad->set_predefined_episode_count(-1); }, "episodes");
  refused([](CollectorFinished* bad) { bad->set_real_episode_count(-1); }, "episodes");
  refused([](CollectorFinished* bad) { bad->set_train_iter(-2); }, "train iterations");
  refused([](CollectorFinished* bad) { bad->set_duration_seconds(kNaN); }, "nan seconds");
  refused([](CollectorFinished* bad) { bad->set_duration_seconds(-1); }, "-1 seconds");
  refused([](CollectorFinished* bad) { bad->add_episode_return(kInf); }, "return is inf");
  refused([](CollectorFinished* bad) { bad->add_episode_return(kNaN); }, "return is nan");
  refused([](CollectorFinished* bad) { bad->set_eval_score(kNaN); },
          "score of an evaluation is nan");
  const auto refused_info = [&](double mean, int64_t count, const std::string& says) {
    const auto add = [=](CollectorFinished* bad) {
      bad->add_info()->set_mean(mean);
      bad->mutable_info(0)->set_count(count);
    };
    refused(add, says);
  };
  refused_info(kNaN, 1, "an info value of 1 episodes has the mean nan");
  refused_info(0.5, 0, "an info value of 0 episodes");
  refused_info(0.5, 2, "expected a finite number, of 1 to 1 episodes");
  refused([](CollectorFinished* bad) { bad->set_step_count(0); }, "1 episodes in 0 steps");
  refused(
      [](CollectorFinished* bad) {
        bad->add_game_result(TaskGameResult::WINS);
        bad->add_game_result(TaskGameResult::WINS);
      },
      "2 results for 1 games");
}

TEST(CheckPrioritiesTest, RefusesPrioritiesThatAreNegativeOrNotFinite) {
  LearnerInfo info;
  info.add_priority(0.5f);
  for (const double priority : {kNaN, kInf, -1.0}) {
    ExpectRefused<LearnerInfo>(
        info, &CheckPriorities,
        [priority](LearnerInfo* bad) { bad->add_priority(static_cast<float>(priority)); },
        "priority");
  }
}

TEST(CheckBadChunksTest, RefusesInvalidNumbersAndCounts) {
  BadChunks bad;
  bad.add_chunk()->set_chunk(7);
  const auto refused = [&bad](const std::function<void(BadChunks*)>& change,
                              const std::string& says) {
    ExpectRefused(bad, &CheckBadChunks, change, says);
  };
  refused([](BadChunks* none) { none->clear_chunk(); }, "0 chunks");
  refused([](BadChunks* below) { below->add_chunk()->set_chunk(-1); }, "below 0");
  refused(
      [](BadChunks* many) {
        for (int i = 0; i < kMaxBadChunks; ++i) many->add_chunk();
      },
      "1025 chunks");
}

}  // namespace
}  // namespace ding

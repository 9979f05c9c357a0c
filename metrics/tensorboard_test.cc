#include "ding_worker/metrics/tensorboard.h"

#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/metrics/tensorboard.pb.h"
#include "ding_worker/metrics/testing/event_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::ding::tensorboard::Event;
using ::ding::tensorboard::HParamsPluginData;
using ::ding::tensorboard::Summary;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

const absl::Time kStart = absl::UnixEpoch() + absl::Milliseconds(1700000000500);

class TensorBoardTest : public testing::Test {
 protected:
  TensorBoardTest() : clock_(kStart) {
    options_.folder =
        JoinPath(testing::TempDir(), testing::UnitTest::GetInstance()->current_test_info()->name());
    EXPECT_THAT(RemoveRecursively(options_.folder), IsOk());
    options_.clock = &clock_;
  }

  SimulatedClock clock_;
  TensorBoardSink::Options options_;
};

// The events after the version.
std::vector<Event> FlushAndRead(TensorBoardSink* sink) {
  EXPECT_THAT(sink->Flush(), IsOk());
  std::vector<Event> events = ReadEvents(sink->path());
  EXPECT_THAT(events, testing::Not(IsEmpty()));
  EXPECT_EQ(events.front().file_version(), "brain.Event:2");
  events.erase(events.begin());
  return events;
}

TEST_F(TensorBoardTest, NamesTheFileAsTensorBoardExpects) {
  DING_ASSERT_OK_AND_ASSIGN(const auto one, TensorBoardSink::Create(options_));
  DING_ASSERT_OK_AND_ASSIGN(const auto two, TensorBoardSink::Create(options_));
  EXPECT_THAT(one->path(),
              StartsWith(JoinPath(options_.folder, "events.out.tfevents.1700000000.")));
  EXPECT_THAT(one->path(), HasSubstr(absl::StrCat(".", getpid(), ".")));
  EXPECT_NE(one->path(), two->path());
}

// Python's struct module made the expected bytes from the published format.
TEST_F(TensorBoardTest, WritesThePublishedFormat) {
  DING_ASSERT_OK_AND_ASSIGN(const auto sink, TensorBoardSink::Create(options_));
  sink->Scalar("a/b", 300, 0.5);
  EXPECT_THAT(sink->Flush(), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const std::string content, ReadFile(sink->path()));
  EXPECT_EQ(absl::BytesToHexString(content),
            "1800000000000000a37f4b22"
            "0900002040fc54d9411a0d627261696e2e4576656e743a32"
            "2b353110"
            "1a00000000000000129bd82d"
            "0900002040fc54d94110ac022a0c0a0a0a03612f62150000003f"
            "4589295c");
}

TEST_F(TensorBoardTest, WritesScalarsWithTheTimeOfTheCall) {
  DING_ASSERT_OK_AND_ASSIGN(const auto sink, TensorBoardSink::Create(options_));
  clock_.Advance(absl::Seconds(2));
  sink->Scalar("loss", 1, 0.25);
  sink->Scalar("loss", 2, std::numeric_limits<double>::quiet_NaN());
  sink->Scalar("loss", 3, -std::numeric_limits<double>::infinity());
  const std::vector<Event> events = FlushAndRead(sink.get());
  ASSERT_THAT(events, SizeIs(3));
  EXPECT_EQ(events[0].wall_time(), 1700000002.5);
  EXPECT_EQ(events[0].step(), 1);
  ASSERT_THAT(events[0].summary().value(), SizeIs(1));
  EXPECT_EQ(events[0].summary().value(0).tag(), "loss");
  EXPECT_EQ(events[0].summary().value(0).simple_value(), 0.25f);
  EXPECT_TRUE(std::isnan(events[1].summary().value(0).simple_value()));
  EXPECT_EQ(events[2].summary().value(0).simple_value(), -std::numeric_limits<float>::infinity());
}

TEST_F(TensorBoardTest, TagsAreUtf8AndDiffer) {
  DING_ASSERT_OK_AND_ASSIGN(const auto sink, TensorBoardSink::Create(options_));
  sink->Scalar("\xE5\xA5\x96", 1, 0);
  sink->Scalar("\xFF", 1, 0);
  sink->Scalar("\xFE", 1, 0);
  const std::vector<Event> events = FlushAndRead(sink.get());
  ASSERT_THAT(events, SizeIs(3));
  EXPECT_EQ(events[0].summary().value(0).tag(), "\xE5\xA5\x96");
  EXPECT_EQ(events[1].summary().value(0).tag(), "\\xFF");
  EXPECT_EQ(events[2].summary().value(0).tag(), "\\xFE");
}

TEST_F(TensorBoardTest, WritesHistograms) {
  DING_ASSERT_OK_AND_ASSIGN(const auto sink, TensorBoardSink::Create(options_));
  sink->Histogram("q", 4, {});
  std::vector<float> values;
  for (int i = 0; i <= 30; ++i) values.push_back(static_cast<float>(i));
  sink->Histogram("q", 5, values);
  const std::vector<Event> events = FlushAndRead(sink.get());
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].step(), 5);
  ASSERT_THAT(events[0].summary().value(), SizeIs(1));
  const tensorboard::HistogramProto& histo = events[0].summary().value(0).histo();
  EXPECT_EQ(histo.min(), 0);
  EXPECT_EQ(histo.max(), 30);
  EXPECT_EQ(histo.num(), 31);
  EXPECT_EQ(histo.sum(), 465);
  EXPECT_EQ(histo.sum_squares(), 9455);
  ASSERT_THAT(histo.bucket_limit(), SizeIs(30));
  ASSERT_THAT(histo.bucket(), SizeIs(30));
  EXPECT_EQ(histo.bucket_limit(0), 1);
  EXPECT_EQ(histo.bucket(0), 2);
  EXPECT_EQ(histo.bucket_limit(29), 30);
  EXPECT_EQ(histo.bucket(29), 1);
}

TEST_F(TensorBoardTest, WritesTheNumberOfNonFiniteValuesOfAHistogram) {
  DING_ASSERT_OK_AND_ASSIGN(const auto sink, TensorBoardSink::Create(options_));
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  sink->Histogram("q", 0, {1.0f, kNan});
  sink->Histogram("q", 1, {kNan, kNan});
  const std::vector<Event> events = FlushAndRead(sink.get());
  ASSERT_THAT(events, SizeIs(2));
  ASSERT_THAT(events[0].summary().value(), SizeIs(2));
  EXPECT_EQ(events[0].summary().value(0).histo().num(), 1);
  EXPECT_EQ(events[0].summary().value(1).tag(), "q_non_finite");
  EXPECT_EQ(events[0].summary().value(1).simple_value(), 1);
  ASSERT_THAT(events[1].summary().value(), SizeIs(1));
  EXPECT_EQ(events[1].summary().value(0).simple_value(), 2);
}

TEST_F(TensorBoardTest, WritesText) {
  DING_ASSERT_OK_AND_ASSIGN(const auto sink, TensorBoardSink::Create(options_));
  sink->Text("config", 0, "type: \"dqn\"\n");
  const std::vector<Event> events = FlushAndRead(sink.get());
  ASSERT_THAT(events, SizeIs(1));
  const Summary::Value& value = events[0].summary().value(0);
  EXPECT_EQ(value.tag(), "config");
  EXPECT_EQ(value.metadata().plugin_data().plugin_name(), "text");
  EXPECT_EQ(value.tensor().dtype(), tensorboard::DT_STRING);
  ASSERT_THAT(value.tensor().tensor_shape().dim(), SizeIs(1));
  EXPECT_EQ(value.tensor().tensor_shape().dim(0).size(), 1);
  EXPECT_THAT(value.tensor().string_val(), ElementsAre("type: \"dqn\"\n"));
}

TEST_F(TensorBoardTest, WritesPictures) {
  DING_ASSERT_OK_AND_ASSIGN(const auto sink, TensorBoardSink::Create(options_));
  const std::string file("GIF89a\0\xff", 8);
  sink->EncodedImage("video", 7, 600, 400, file);
  const std::vector<Event> events = FlushAndRead(sink.get());
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].step(), 7);
  const Summary::Value& value = events[0].summary().value(0);
  EXPECT_EQ(value.tag(), "video");
  EXPECT_EQ(value.image().width(), 600);
  EXPECT_EQ(value.image().height(), 400);
  EXPECT_EQ(value.image().colorspace(), 3);
  EXPECT_EQ(value.image().encoded_image_string(), file);
}

// The content of the values that the HParams dashboard reads.
HParamsPluginData HParamsOf(const Event& event) {
  const Summary::Value& value = event.summary().value(0);
  EXPECT_EQ(value.metadata().plugin_data().plugin_name(), "hparams");
  EXPECT_EQ(value.tensor().dtype(), tensorboard::DT_FLOAT);
  HParamsPluginData data;
  EXPECT_TRUE(data.ParseFromString(value.metadata().plugin_data().content()));
  return data;
}

TEST_F(TensorBoardTest, WritesHyperparametersAndFinalResults) {
  DING_ASSERT_OK_AND_ASSIGN(const auto sink, TensorBoardSink::Create(options_));
  sink->BeginRun({"cartpole",
                  {{"policy.learn.batch_size", "64"},
                   {"policy.priority", "true"},
                   {"policy.type", "\"dqn\""},
                   {"model.encoder_hidden_size", "[128, 64]"}}});
  sink->EndRun(RunEnd::kFinished, 1144, {{"final_eval", 195.5}});
  const std::vector<Event> events = FlushAndRead(sink.get());
  ASSERT_THAT(events, SizeIs(3));
  EXPECT_EQ(events[0].summary().value(0).tag(), "_hparams_/session_start_info");
  const auto hparams = HParamsOf(events[0]).session_start_info().hparams();
  EXPECT_EQ(hparams.at("policy.learn.batch_size").number_value(), 64);
  EXPECT_TRUE(hparams.at("policy.priority").bool_value());
  EXPECT_EQ(hparams.at("policy.type").string_value(), "dqn");
  EXPECT_EQ(hparams.at("model.encoder_hidden_size").string_value(), "[128, 64]");
  EXPECT_EQ(events[1].summary().value(0).tag(), "result/final_eval");
  EXPECT_EQ(events[1].summary().value(0).simple_value(), 195.5f);
  EXPECT_EQ(events[1].step(), 1144);
  EXPECT_EQ(events[2].summary().value(0).tag(), "_hparams_/session_end_info");
  EXPECT_EQ(HParamsOf(events[2]).session_end_info().status(), tensorboard::SessionEndInfo::SUCCESS);
}

TEST_F(TensorBoardTest, AFailedRunIsShownAsOne) {
  DING_ASSERT_OK_AND_ASSIGN(const auto sink, TensorBoardSink::Create(options_));
  sink->EndRun(RunEnd::kFailed, 0, {});
  const std::vector<Event> events = FlushAndRead(sink.get());
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(HParamsOf(events[0]).session_end_info().status(), tensorboard::SessionEndInfo::FAILURE);
}

TEST_F(TensorBoardTest, WritesWithoutAFlushWhenTheIntervalHasPassedAndOnDestruction) {
  DING_ASSERT_OK_AND_ASSIGN(auto sink, TensorBoardSink::Create(options_));
  const std::string path = sink->path();
  sink->Scalar("a", 0, 0);
  EXPECT_THAT(ReadEvents(path), IsEmpty());
  clock_.Advance(options_.flush_interval);
  sink->Scalar("a", 1, 0);
  EXPECT_THAT(ReadEvents(path), SizeIs(3));
  sink->Scalar("a", 2, 0);
  sink.reset();
  EXPECT_THAT(ReadEvents(path), SizeIs(4));
}

TEST_F(TensorBoardTest, FlushReturnsAFullDiskAndWritingContinues) {
  options_.folder = "/dev";
  options_.file_name = "full";
  DING_ASSERT_OK_AND_ASSIGN(const auto sink, TensorBoardSink::Create(options_));
  for (int round = 0; round < 2; ++round) {
    sink->Scalar("a", 0, 0);
    sink->Histogram("h", 0, {1.0f});
    sink->Text("t", 0, "text");
    EXPECT_THAT(sink->Flush(), IsResourceExhausted("'/dev/full'"));
  }
}

TEST_F(TensorBoardTest, RefusesAFolderThatCannotBeCreated) {
  ASSERT_THAT(WriteFileAtomically(options_.folder, "a file"), IsOk());
  const std::string file = options_.folder;
  options_.folder = JoinPath(file, "log");
  const auto sink = TensorBoardSink::Create(options_);
  ASSERT_FALSE(sink.ok());
  EXPECT_THAT(std::string(sink.status().message()), HasSubstr(file));
}

TEST_F(TensorBoardTest, EventsOfSeveralThreadsStayWhole) {
  constexpr int kThreads = 4, kEvents = 500;
  options_.clock = Clock::Real();
  DING_ASSERT_OK_AND_ASSIGN(const auto sink, TensorBoardSink::Create(options_));
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&sink, t] {
      for (int i = 0; i < kEvents; ++i) sink->Scalar(absl::StrCat("thread", t), i, i);
      EXPECT_THAT(sink->Flush(), IsOk());
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<std::pair<std::string, int64_t>> seen;
  for (const Event& event : FlushAndRead(sink.get())) {
    seen.emplace(event.summary().value(0).tag(), event.step());
  }
  EXPECT_THAT(seen, SizeIs(kThreads * kEvents));
}

}  // namespace
}  // namespace ding

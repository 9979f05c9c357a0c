#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/metrics/testing/recording_sink.h"
#include "ding_worker/worker/coordination/run_status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

RunStatus StatusAt(double seconds, int64_t env_step, int64_t train_iter) {
  RunStatus status;
  status.set_elapsed_seconds(seconds);
  status.set_envstep(env_step);
  status.set_train_iter(train_iter);
  return status;
}

// Each value as "tag step value".
std::vector<std::string> Written(const RecordingSink& sink) {
  std::vector<std::string> lines;
  for (const RecordingSink::ScalarRecord& record : sink.scalars()) {
    lines.push_back(absl::StrCat(record.tag, " ", record.step, " ", record.value));
  }
  return lines;
}

TEST(RunRatesTest, WritesWhatWasDoneInEachSecondAndAtTheEnd) {
  RecordingSink sink;
  RunRates rates(StatusAt(10, 1000, 500), /*has_env_steps=*/true, &sink);
  rates.WriteIfDue(StatusAt(10.9, 1500, 600));
  EXPECT_THAT(Written(sink), IsEmpty());
  rates.WriteIfDue(StatusAt(12, 2000, 600));
  EXPECT_THAT(Written(sink), ElementsAre("run_step/env_steps_per_second 2000 500",
                                         "run_step/updates_per_second 2000 50"));
  rates.WriteIfDue(StatusAt(12.5, 2100, 601));
  rates.Write(StatusAt(12.5, 2100, 601));
  rates.Write(StatusAt(13, 2100, 601));  // Nothing was done.
  EXPECT_THAT(
      Written(sink),
      ElementsAre("run_step/env_steps_per_second 2000 500", "run_step/updates_per_second 2000 50",
                  "run_step/env_steps_per_second 2100 200", "run_step/updates_per_second 2100 2"));
}

TEST(RunRatesTest, DescribesTheBufferOrEachOfSeveral) {
  RecordingSink sink;
  RunStatus status = StatusAt(0, 0, 0);
  RunRates rates(status, /*has_env_steps=*/true, &sink);
  status = StatusAt(1, 10, 0);
  BufferStatus* const buffer = status.add_buffer();
  buffer->set_buffer_id("buffer_0");
  buffer->set_count(8);
  rates.WriteIfDue(status);
  EXPECT_THAT(Written(sink),
              ElementsAre("run_step/env_steps_per_second 10 10", "run_step/updates_per_second 10 0",
                          "replay_buffer_step/rows 10 8"));

  RecordingSink other;
  RunRates rates_of_two(StatusAt(0, 0, 0), /*has_env_steps=*/true, &other);
  buffer->set_push_count(10);
  buffer->set_sample_count(40);
  buffer->set_staleness_iterations(3);
  *status.add_buffer() = *buffer;
  status.mutable_buffer(1)->set_buffer_id("buffer_1");
  rates_of_two.Write(status);
  EXPECT_THAT(Written(other),
              ElementsAre("run_step/env_steps_per_second 10 10", "run_step/updates_per_second 10 0",
                          "buffer_0_step/rows 10 8", "buffer_0_step/age 10 3",
                          "buffer_0_step/drawn_per_pushed 10 4", "buffer_1_step/rows 10 8",
                          "buffer_1_step/age 10 3", "buffer_1_step/drawn_per_pushed 10 4"));
}

TEST(RunRatesTest, ARunWithADataSetCountsTrainIterations) {
  RecordingSink sink;
  RunRates rates(StatusAt(0, 0, 0), /*has_env_steps=*/false, &sink);
  rates.WriteIfDue(StatusAt(2, 0, 500));
  EXPECT_THAT(Written(sink), ElementsAre("run_iter/updates_per_second 500 250"));
}

}  // namespace
}  // namespace ding

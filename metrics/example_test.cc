// The example of docs/reference/metrics.md.

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/metrics/csv.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/metrics/tensorboard.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

// [example]
absl::Status Measure(const std::string& folder) {
  TensorBoardSink::Options tensorboard;
  tensorboard.folder = JoinPath(folder, "tensorboard");
  DING_ASSIGN_OR_RETURN(std::shared_ptr<MetricSink> events, TensorBoardSink::Create(tensorboard));
  CsvSink::Options csv;
  csv.path = JoinPath(folder, "metrics.csv");
  DING_ASSIGN_OR_RETURN(std::shared_ptr<MetricSink> table, CsvSink::Create(csv));

  // All components that measure share it.
  const std::shared_ptr<MetricSink> metrics =
      std::make_shared<MultiSink>(std::vector{std::move(events), std::move(table)});

  metrics->Text("config", 0, "type: **dqn**");
  for (int iter = 0; iter < 100; ++iter) {
    const float loss = std::exp(-0.05f * static_cast<float>(iter));
    metrics->Scalar("learner_iter/loss", iter, loss);
    metrics->Histogram("learner_iter/q", iter, {-loss, 0, 0, loss});
  }
  return metrics->Flush();
}
// [/example]

TEST(MetricsExample, WritesBothFiles) {
  const std::string folder = JoinPath(testing::TempDir(), "metrics_example");
  ASSERT_THAT(RemoveRecursively(folder), IsOk());
  ASSERT_THAT(CreateDirectories(folder), IsOk());
  ASSERT_THAT(Measure(folder), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const auto events, ListDirectory(JoinPath(folder, "tensorboard")));
  EXPECT_THAT(events, testing::ElementsAre(testing::StartsWith("events.out.tfevents.")));
  DING_ASSERT_OK_AND_ASSIGN(const std::string csv, ReadFile(JoinPath(folder, "metrics.csv")));
  EXPECT_THAT(csv, testing::HasSubstr("\n0,learner_iter/loss,1,"));
  EXPECT_THAT(csv, testing::HasSubstr("\n99,learner_iter/q/count,4,"));
}

}  // namespace
}  // namespace ding

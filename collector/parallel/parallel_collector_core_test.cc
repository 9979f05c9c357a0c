// Tests of the core as a building block; those of the parallel collectors test the rest of it.
#include "ding_worker/collector/parallel/parallel_collector_core.h"

#include <functional>
#include <memory>
#include <stdexcept>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/parallel/base_parallel_collector.h"
#include "ding_worker/collector/testing/fake_env_manager.h"
#include "ding_worker/collector/testing/fake_link.h"
#include "ding_worker/collector/testing/fake_policy.h"
#include "ding_worker/collector/testing/sent_rows.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/metrics/component.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using Select = std::function<absl::StatusOr<SegmentBatch>(SegmentBatch)>;

// A collector that sends what a function of the test selects.
class SelectingCollector : public ParallelCollectorCore {
 public:
  static absl::StatusOr<std::unique_ptr<SelectingCollector>> Create(
      const Options& options, const ParallelCollectorParts& parts, Select select) {
    DING_ASSIGN_OR_RETURN(Setup setup,
                          Prepare(options, {}, parts, ComponentDeps(), {{parts.collect_mode}},
                                  /*is_game=*/false, {"params are wrong"}));
    return absl::WrapUnique(new SelectingCollector(std::move(setup), std::move(select)));
  }
  static absl::StatusOr<std::unique_ptr<SelectingCollector>> Create(
      const ParallelCollectorParts& parts, Select select) {
    DING_ASSIGN_OR_RETURN(Setup setup,
                          Prepare(Options(), {}, parts, ComponentDeps(), {{parts.collect_mode}}));
    return absl::WrapUnique(new SelectingCollector(std::move(setup), std::move(select)));
  }

 private:
  SelectingCollector(Setup setup, Select select)
      : ParallelCollectorCore(std::move(setup)), select_(std::move(select)) {}
  absl::StatusOr<SegmentBatch> SelectRows(SegmentBatch data) override {
    return select_(std::move(data));
  }
  const Select select_;
};

struct Fixture {
  Fixture() {
    link.Publish(0, AModel());
    parts.env = &envs;
    parts.collect_mode = &policy;
    parts.link = &link;
    parts.episodes_per_env = 2;
  }
  FakeEnvManager envs{{}};
  FakePolicy policy{Samples(3)};
  FakeLink link;
  ParallelCollectorParts parts;
};

TEST(ParallelCollectorCoreTest, SendsWhatIsSelected) {
  Fixture f;
  bool send = false;
  DING_ASSERT_OK_AND_ASSIGN(const auto collector,
                            SelectingCollector::Create(f.parts, [&](SegmentBatch data) {
                              send = !send;
                              return send ? SegmentBatch() : data;
                            }));
  ASSERT_THAT(collector->Run(), IsOk());
  // 3 envs play 2 episodes of 3 steps; 9 rows are due twice.
  EXPECT_EQ(RowsSent(f.link).size(), 9u);
  EXPECT_EQ(collector->GetFinishInfo().sample_count, 9);
  EXPECT_EQ(collector->GetFinishInfo().step_count, 18);
}

TEST(ParallelCollectorCoreTest, SendsNothingIfNothingIsSelected) {
  Fixture f;
  DING_ASSERT_OK_AND_ASSIGN(
      const auto collector,
      SelectingCollector::Create(f.parts, [](const SegmentBatch&) { return SegmentBatch(); }));
  ASSERT_THAT(collector->Run(), IsOk());
  EXPECT_THAT(f.link.sent(), IsEmpty());
  EXPECT_TRUE(collector->GetFinishInfo().collector_done);
}

TEST(ParallelCollectorCoreTest, AnErrorOfTheSelectionEndsTheTask) {
  Fixture f;
  DING_ASSERT_OK_AND_ASSIGN(const auto collector,
                            SelectingCollector::Create(f.parts, [](const SegmentBatch&) {
                              return absl::StatusOr<SegmentBatch>(absl::DataLossError("lost"));
                            }));
  EXPECT_THAT(collector->Run(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("collector: lost")));
  Fixture g;
  DING_ASSERT_OK_AND_ASSIGN(
      const auto throws,
      SelectingCollector::Create(g.parts, [](const SegmentBatch&) -> absl::StatusOr<SegmentBatch> {
        throw std::runtime_error("odd");
      }));
  EXPECT_THAT(throws->Run(),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("collector: SelectRows() threw an exception: odd")));
}

TEST(ParallelCollectorCoreTest, ReportsAllProblemsAtOnce) {
  Fixture f;
  f.parts.link = nullptr;
  ParallelCollectorCore::Options options;
  options.print_freq = 0;
  EXPECT_THAT(SelectingCollector::Create(options, f.parts, nullptr),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("print_freq is 0"), HasSubstr("no link"),
                             HasSubstr("params are wrong"))));
}

}  // namespace
}  // namespace ding

// Tests of the core as a building block; those of the parallel collectors test the rest of it.
#include "ding_worker/collector/parallel/parallel_collector_core.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/core/collect_core.h"
#include "ding_worker/collector/parallel/base_parallel_collector.h"
#include "ding_worker/collector/testing/fake_env_manager.h"
#include "ding_worker/collector/testing/fake_link.h"
#include "ding_worker/collector/testing/fake_policy.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/policy/policy.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Le;
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
  FakePolicy policy{Samples(9)};
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

// Overrides each step, and calls `on_step` with its name first.
class OwnStepsCollector : public ParallelCollectorCore {
 public:
  using OnStep = std::function<absl::Status(const std::string& step)>;

  static absl::StatusOr<std::unique_ptr<OwnStepsCollector>> Create(
      const ParallelCollectorParts& parts, OnStep on_step) {
    DING_ASSIGN_OR_RETURN(Setup setup,
                          Prepare(Options(), {}, parts, ComponentDeps(), {{parts.collect_mode}}));
    return absl::WrapUnique(new OwnStepsCollector(std::move(setup), std::move(on_step)));
  }

  CollectorFinishInfo GetFinishInfo() const override {
    CollectorFinishInfo info = ParallelCollectorCore::GetFinishInfo();
    info.train_iter += 100;
    return info;
  }

 private:
  OwnStepsCollector(Setup setup, OnStep on_step)
      : ParallelCollectorCore(std::move(setup)), on_step_(std::move(on_step)) {}

  absl::StatusOr<bool> UpdatePolicy(int player, absl::Duration timeout) override {
    DING_RETURN_IF_ERROR(on_step_("UpdatePolicy"));
    return ParallelCollectorCore::UpdatePolicy(player, timeout);
  }
  // All envs act as env 0.
  absl::Status PolicyInference(CollectMode* policy, const ColumnsView& obs,
                               absl::Span<const int> env_ids, const NamedValues& settings,
                               const MutableColumnsView& out) override {
    DING_RETURN_IF_ERROR(on_step_("PolicyInference"));
    DING_RETURN_IF_ERROR(
        ParallelCollectorCore::PolicyInference(policy, obs, env_ids, settings, out));
    const absl::Span<int64_t> actions = out.column<int64_t>(0);
    std::fill(actions.begin(), actions.end(), actions[0]);
    return absl::OkStatus();
  }
  // Rewards are negative.
  absl::StatusOr<const Timesteps*> EnvStep(absl::Span<const int> env_ids,
                                           const ColumnsView& actions) override {
    DING_RETURN_IF_ERROR(on_step_("EnvStep"));
    DING_ASSIGN_OR_RETURN(const Timesteps* const timesteps,
                          ParallelCollectorCore::EnvStep(env_ids, actions));
    timesteps_ = *timesteps;
    rewards_.clear();
    for (const float reward : timesteps->reward) rewards_.push_back(-reward);
    timesteps_.reward = rewards_;
    return &timesteps_;
  }
  absl::Status ProcessTimestep(const Timesteps& timesteps, CollectCore* core) override {
    DING_RETURN_IF_ERROR(on_step_("ProcessTimestep"));
    return ParallelCollectorCore::ProcessTimestep(timesteps, core);
  }
  // Env 0 plays twice as many episodes.
  absl::StatusOr<bool> NeedNewEpisode(int env_id) override {
    DING_RETURN_IF_ERROR(on_step_("NeedNewEpisode"));
    if (env_id != 0) return ParallelCollectorCore::NeedNewEpisode(env_id);
    return episodes(env_id) < 2 * parts().episodes_per_env;
  }
  absl::StatusOr<SegmentBatch> SelectRows(SegmentBatch data) override {
    DING_RETURN_IF_ERROR(on_step_("SelectRows"));
    return ParallelCollectorCore::SelectRows(std::move(data));
  }
  absl::Status IterAfterHook() override {
    DING_RETURN_IF_ERROR(on_step_("IterAfterHook"));
    return ParallelCollectorCore::IterAfterHook();
  }

  const OnStep on_step_;
  Timesteps timesteps_;
  std::vector<float> rewards_;
};

TEST(ParallelCollectorCoreTest, CallsEachStepOnceForAllEnvs) {
  Fixture f;
  std::vector<std::string> steps;
  DING_ASSERT_OK_AND_ASSIGN(const auto collector,
                            OwnStepsCollector::Create(f.parts, [&](const std::string& step) {
                              steps.push_back(step);
                              return absl::OkStatus();
                            }));
  ASSERT_THAT(collector->Run(), IsOk());
  // The first episodes end in the third step; rows are due after every third step.
  EXPECT_THAT(absl::MakeSpan(steps).subspan(0, 18),
              ElementsAre("UpdatePolicy",  // waits for the first version
                          "UpdatePolicy", "PolicyInference", "EnvStep", "ProcessTimestep",
                          "IterAfterHook",  //
                          "UpdatePolicy", "PolicyInference", "EnvStep", "ProcessTimestep",
                          "IterAfterHook",  //
                          "UpdatePolicy", "PolicyInference", "EnvStep", "ProcessTimestep",
                          "NeedNewEpisode", "NeedNewEpisode", "NeedNewEpisode"));
  EXPECT_THAT(absl::MakeSpan(steps).subspan(18, 2), ElementsAre("SelectRows", "IterAfterHook"));
}

TEST(ParallelCollectorCoreTest, OverriddenStepsDecideWhatIsSent) {
  Fixture f;
  DING_ASSERT_OK_AND_ASSIGN(
      const auto collector,
      OwnStepsCollector::Create(f.parts, [](const std::string&) { return absl::OkStatus(); }));
  ASSERT_THAT(collector->Run(), IsOk());
  const CollectorFinishInfo info = collector->GetFinishInfo();
  EXPECT_EQ(info.train_iter, 100);
  EXPECT_EQ(info.step_count, 3 * 2 * 3 + 2 * 3) << "env 0 plays two more episodes of 3 steps";
  EXPECT_EQ(info.episode_return.size(), 8u);
  EXPECT_EQ(info.sample_count, info.step_count);
  std::map<int64_t, std::set<int64_t>> actions;  // by call
  for (const FakeEnvManager::Event& event : f.envs.events()) {
    actions[event.call].insert(event.action);
    EXPECT_GE(event.reward, 0);
  }
  for (const auto& [call, chosen] : actions) EXPECT_EQ(chosen.size(), 1u) << call;
  for (const FakeLink::Sent& sent : f.link.sent()) {
    EXPECT_THAT(sent.data.rows.column<float>("reward"), Each(Le(0)));
  }
}

TEST(ParallelCollectorCoreTest, AnErrorOrExceptionOfAStepEndsTheTask) {
  for (const char* const step : {"UpdatePolicy", "PolicyInference", "EnvStep", "ProcessTimestep",
                                 "NeedNewEpisode", "SelectRows", "IterAfterHook"}) {
    for (const bool throws : {false, true}) {
      Fixture f;
      DING_ASSERT_OK_AND_ASSIGN(
          const auto collector,
          OwnStepsCollector::Create(f.parts, [&](const std::string& called) -> absl::Status {
            if (called != step) return absl::OkStatus();
            if (throws) throw std::runtime_error("odd");
            return absl::InternalError("odd");
          }));
      EXPECT_THAT(collector->Run(), StatusIs(absl::StatusCode::kInternal,
                                             AllOf(HasSubstr("collector: "), HasSubstr("odd"))))
          << step;
      EXPECT_FALSE(collector->GetFinishInfo().collector_done);
    }
  }
}

TEST(ParallelCollectorCoreTest, UpdatePolicyThatHasNoneYet_IsCalledAgain) {
  class Late : public ParallelCollectorCore {
   public:
    static absl::StatusOr<std::unique_ptr<Late>> Create(const ParallelCollectorParts& parts) {
      DING_ASSIGN_OR_RETURN(Setup setup,
                            Prepare(Options(), {}, parts, ComponentDeps(), {{parts.collect_mode}}));
      return absl::WrapUnique(new Late(std::move(setup)));
    }
    int looks = 0;

   private:
    using ParallelCollectorCore::ParallelCollectorCore;
    // A policy of its own: the link is not asked.
    absl::StatusOr<bool> UpdatePolicy(int /*player*/, absl::Duration /*timeout*/) override {
      return ++looks >= 3;
    }
  };
  Fixture f;
  DING_ASSERT_OK_AND_ASSIGN(const auto collector, Late::Create(f.parts));
  ASSERT_THAT(collector->Run(), IsOk());
  EXPECT_GE(collector->looks, 3);
  EXPECT_EQ(f.link.looks(), 0);
  EXPECT_EQ(collector->GetFinishInfo().step_count, 18);
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

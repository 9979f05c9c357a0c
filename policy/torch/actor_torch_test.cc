// Tests that actors compute the networks of libtorch without it.
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/actor/actor.h"
#include "ding_worker/policy/actor/testing/actor_checkpoints.h"
#include "ding_worker/policy/policy.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

class ActorTorchTest : public testing::TestWithParam<ActorCase> {};

BatchBuilder RandomObservations(const SpecPtr& spec, int64_t rows, uint64_t seed) {
  BatchBuilder obs = BatchBuilder::Create(spec, rows).value();
  Rng rng(seed, "observations");
  for (int field = 0; field < spec->size(); ++field) {
    if (spec->field(field).dtype == DType::kFloat32) {
      for (float& value : obs.column<float>(field)) value = static_cast<float>(3 * rng.Normal());
    } else {
      const bool mask = spec->field(field).dtype == DType::kBool;
      for (uint8_t& value : obs.column<uint8_t>(field)) {
        value = mask ? 1 : static_cast<uint8_t>(rng.UniformInt(256));
      }
    }
  }
  return obs;
}

TEST_P(ActorTorchTest, ActsAsTheEvalMode) {
  const ActorCase& of = GetParam();
  const std::string path = JoinPath(testing::TempDir(), "actor_torch_" + of.name);
  const std::unique_ptr<Policy> policy = MakeRandomPolicy(of);
  SaveActorCheckpoint(of, policy.get(), path);
  DING_ASSERT_OK_AND_ASSIGN(const auto actor, Actor::Load(path));
  EvalMode* const eval = policy->eval_mode();
  std::set<double> seen;
  for (const int64_t rows : {1, 3, 70}) {
    ASSERT_THAT(eval->Reset({}), IsOk());
    actor->Begin();
    std::vector<int> ids;
    for (int i = 0; i < rows; ++i) ids.push_back(i);
    for (uint64_t step = 0; step < 4; ++step) {
      const BatchBuilder obs = RandomObservations(of.observation, rows, step);
      const BatchBuilder out = BatchBuilder::Create(eval->output_spec(), rows).value();
      ASSERT_THAT(eval->Forward(obs.view(), ids, {}, out.view()), IsOk());
      DING_ASSERT_OK_AND_ASSIGN(const ColumnsView actions, actor->Act(obs.view(), ids));
      if (of.action->field(0).is_discrete()) {
        EXPECT_EQ(actions.column<int64_t>(0), out.column<int64_t>(0));
        for (const int64_t action : out.column<int64_t>(0)) seen.insert(action);
        continue;
      }
      const absl::Span<const float> found = actions.column<float>(0);
      for (size_t i = 0; i < found.size(); ++i) {
        ASSERT_NEAR(found[i], out.column<float>(0)[i], 2e-5) << rows << ", " << step << ": " << i;
        seen.insert(found[i]);
      }
    }
  }
  EXPECT_GT(seen.size(), 1u) << "the test cannot fail";
}

INSTANTIATE_TEST_SUITE_P(All, ActorTorchTest, testing::ValuesIn(TorchActorCases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace ding

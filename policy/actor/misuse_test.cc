// What an actor does with ids that nobody should give it. Run it with AddressSanitizer and
// UndefinedBehaviorSanitizer, too.
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "ding_worker/base/file.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/policy/actor/actor.h"
#include "ding_worker/policy/actor/testing/actor_checkpoints.h"
#include "ding_worker/policy/recurrent_states.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::Each;
using testing::ElementsAreArray;

constexpr int kMost = RecurrentStates::kMaxIds - 1;

std::vector<int> WrongIds() {
  return {-1, -2, std::numeric_limits<int>::min(), kMost + 1, std::numeric_limits<int>::max()};
}

std::unique_ptr<Actor> LoadCase(const std::string& name) {
  const std::string path = JoinPath(testing::TempDir(), "actor_misuse_" + name);
  EXPECT_THAT(RemoveRecursively(path), IsOk());
  const ActorCase of = FindActorCase(name);
  SaveActorCheckpoint(of, MakeRandomPolicy(of).get(), path);
  return Actor::Load(path).value();
}

// Observations of zeros, with all actions legal.
BatchBuilder Observations(const Actor& actor, int64_t rows) {
  BatchBuilder obs = BatchBuilder::Create(actor.observation(), rows).value();
  for (int field = 0; field < obs.spec().size(); ++field) {
    const int legal = field == actor.model().mask_field ? 1 : 0;
    std::memset(obs.view().raw_column(field), legal,
                static_cast<size_t>(rows * obs.spec().row_bytes(field)));
  }
  return obs;
}

TEST(ActorMisuse, IdsOfAnActorWithMemory_OutOfRange_AreRefused) {
  for (const char* const name : {"R2d2Lstm", "PpoGru"}) {
    const std::unique_ptr<Actor> actor = LoadCase(name);
    const BatchBuilder obs = Observations(*actor, 2);
    const auto size = static_cast<size_t>(actor->model().state_size());
    const std::vector<float> states(2 * size, 0.5f);
    for (const int id : WrongIds()) {
      EXPECT_THAT(actor->Act(obs.view(), {0, id}), IsInvalid()) << id;
      EXPECT_THAT(actor->SetStates({0, id}, states), IsInvalid()) << id;
      EXPECT_THAT(actor->States({id}), Each(0)) << "it has not acted: " << id;
      actor->Begin({id});
    }
    ASSERT_THAT(actor->SetStates({1, 0}, states), IsOk());
    EXPECT_THAT(actor->States({0, 1}), ElementsAreArray(states));
    EXPECT_THAT(actor->SetStates({0}, states), IsInvalid("floats, expected"));
    EXPECT_THAT(actor->Act(obs.view(), {0, kMost}), IsOk());
  }
}

TEST(ActorMisuse, IdsOfAnActorWithoutMemory_MayBeAnyFromZeroOn) {
  const std::unique_ptr<Actor> actor = LoadCase("DqnDueling");
  const BatchBuilder obs = Observations(*actor, 1);
  EXPECT_THAT(actor->Act(obs.view(), {-1}), IsInvalid());
  EXPECT_THAT(actor->Act(obs.view(), {std::numeric_limits<int>::max()}), IsOk());
  EXPECT_THAT(actor->SetStates({-1}, {}), IsOk());
  EXPECT_THAT(actor->SetStates({0}, {1}), IsInvalid());
  EXPECT_THAT(actor->Act(obs.view().Slice(0, 0)), IsOk());
}

TEST(ActorMisuse, CollectAndEval_EnvIdsOutOfRange_AreRefused) {
  for (const char* const name : {"R2d2Lstm", "PpoGru"}) {
    const ActorCase of = FindActorCase(name);
    const std::unique_ptr<Policy> policy = MakeRandomPolicy(of);
    const std::unique_ptr<Actor> actor = LoadCase(name);
    const BatchBuilder obs = Observations(*actor, 1);
    const BatchBuilder out = BatchBuilder::Create(policy->collect_mode()->output_spec(), 1).value();
    const BatchBuilder eval_out =
        BatchBuilder::Create(policy->eval_mode()->output_spec(), 1).value();
    for (const int id : WrongIds()) {
      EXPECT_THAT(policy->collect_mode()->Forward(obs.view(), {id}, {{"eps", 0.0}}, out.view()),
                  IsInvalid());
      EXPECT_THAT(policy->eval_mode()->Forward(obs.view(), {id}, {}, eval_out.view()), IsInvalid());
      EXPECT_THAT(policy->collect_mode()->Reset({id}), IsOk());
    }
  }
}

TEST(ActorMisuseDeathTest, RecurrentStates_IdsThatWereNotChecked_EndTheProgramWithASentence) {
  RecurrentStates states(3);
  for (const int id : WrongIds()) {
    (void)states.Gather({id});
    EXPECT_DEATH(states.Scatter({id}), "env id ");
  }
}

}  // namespace
}  // namespace ding

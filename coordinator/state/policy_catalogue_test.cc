#include "ding_worker/coordinator/state/policy_catalogue.h"

#include <cstdint>
#include <string>
#include <unordered_set>

#include "absl/status/status.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/coordinator/journal/journal.pb.h"
#include "ding_worker/interaction/messages.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string Key(uint64_t version) { return "key-" + std::to_string(version); }

PolicyVersion Version(uint64_t version, int64_t train_iter = 0,
                      const std::string& policy_id = "policy_0") {
  PolicyVersion result;
  result.set_policy_id(policy_id);
  result.set_version(version);
  result.set_train_iter(train_iter);
  result.set_key(policy_id == "policy_0" ? Key(version) : policy_id + "-" + Key(version));
  return result;
}

bool KeepNone(const PolicyVersion& /*version*/) { return false; }
bool KeepFirst(const PolicyVersion& version) { return version.version() == 1; }
bool PlayedByNobody(const std::string& /*policy_id*/) { return false; }

TEST(PolicyCatalogueTest, KnowsTheNewestVersionOfEachPolicy) {
  PolicyCatalogue policies;
  EXPECT_EQ(policies.Begin("policy_0"), 1u);
  EXPECT_EQ(policies.Newest("policy_0"), 0u);
  EXPECT_EQ(policies.NewestStored("policy_0"), nullptr);
  policies.Publish(Version(1, 7));
  policies.Publish(Version(2, 5));
  policies.Publish(Version(4, 3, "policy_1"));
  EXPECT_EQ(policies.last_published(), 4u);
  EXPECT_EQ(policies.Newest("policy_0"), 2u);
  EXPECT_EQ(policies.NewestIter("policy_0"), 7) << "the highest iteration, not the last one";
  EXPECT_EQ(policies.NewestIter("policy_2"), 0);
  ASSERT_NE(policies.NewestStored("policy_0"), nullptr);
  EXPECT_EQ(policies.NewestStored("policy_0")->key(), Key(2));
  ASSERT_NE(policies.FindStored("policy_0", 1), nullptr);
  EXPECT_EQ(policies.FindStored("policy_0", 1)->train_iter(), 7);
  EXPECT_EQ(policies.FindStored("policy_0", 4), nullptr);
  EXPECT_EQ(policies.FindStored("policy_2", 1), nullptr);
  EXPECT_THAT(policies.StoredKeys(), ElementsAre(Key(1), Key(2), "policy_1-" + Key(4)));
  EXPECT_EQ(policies.Begin("policy_0"), 3u);
}

TEST(PolicyCatalogueTest, RefusesAVersionThatIsNotTheNext) {
  PolicyCatalogue policies;
  policies.Publish(Version(2));
  EXPECT_THAT(policies.CheckNext(Version(3), Key(3)), IsOk());
  EXPECT_THAT(policies.CheckNext(Version(1002), Key(1002)), IsOk());
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  for (const uint64_t version : {0, 1, 2, 1003}) {
    EXPECT_THAT(policies.CheckNext(Version(version), Key(version)),
                StatusIs(kInvalid, HasSubstr("after version 2, expected the next one")))
        << version;
  }
  EXPECT_THAT(policies.CheckNext(Version(3), "policy/3"),
              StatusIs(kInvalid, HasSubstr("key 'key-3', expected 'policy/3'")));
}

TEST(PolicyCatalogueTest, DropsAllButTheTwoNewestAndTheKeptVersions) {
  PolicyCatalogue policies;
  policies.Publish(Version(1));
  policies.Publish(Version(2));
  EXPECT_THAT(policies.DropOld("policy_0", KeepFirst), IsEmpty());
  policies.Publish(Version(3));
  policies.Publish(Version(4));
  EXPECT_THAT(policies.DropOld("policy_0", KeepFirst), ElementsAre(Key(2)));
  EXPECT_THAT(policies.StoredKeys(), ElementsAre(Key(1), Key(3), Key(4)));
  policies.Publish(Version(5));
  EXPECT_THAT(policies.DropOld("policy_0", KeepNone), ElementsAre(Key(1), Key(3)));
  EXPECT_THAT(policies.DropOld("policy_1", KeepNone), IsEmpty());
  EXPECT_EQ(policies.Newest("policy_0"), 5u);
}

TEST(PolicyCatalogueTest, DropsFinishedPoliciesThatNobodyPlays) {
  PolicyCatalogue policies;
  policies.Publish(Version(1));
  policies.Publish(Version(2));
  policies.Publish(Version(3, 0, "policy_1"));
  EXPECT_THAT(policies.DropFinished(PlayedByNobody, KeepNone), IsEmpty());
  policies.Finish("policy_0");
  const auto played = [](const std::string& policy_id) { return policy_id == "policy_0"; };
  EXPECT_THAT(policies.DropFinished(played, KeepNone), IsEmpty());
  EXPECT_THAT(policies.DropFinished(PlayedByNobody, KeepFirst), ElementsAre(Key(2)));
  policies.Begin("policy_0");
  EXPECT_THAT(policies.DropFinished(PlayedByNobody, KeepNone), IsEmpty()) << "it is trained again";
  policies.FinishAll();
  EXPECT_THAT(policies.DropFinished(PlayedByNobody, KeepNone),
              ElementsAre(Key(1), "policy_1-" + Key(3)));
  EXPECT_THAT(policies.StoredKeys(), IsEmpty());
  EXPECT_EQ(policies.Newest("policy_0"), 2u) << "its numbers are not used again";
}

TEST(PolicyCatalogueTest, ContinuesFromItsSavedState) {
  PolicyCatalogue before;
  before.Publish(Version(1, 7));
  before.Publish(Version(2, 9));
  before.Publish(Version(3, 1, "policy_1"));
  before.Finish("policy_1");
  StateRecord state;
  before.Save(&state);

  PolicyCatalogue after;
  after.Load(state, /*present=*/nullptr);
  EXPECT_EQ(after.StoredKeys(), before.StoredKeys());
  EXPECT_EQ(after.last_published(), 3u);
  EXPECT_EQ(after.NewestIter("policy_0"), 9);
  EXPECT_THAT(after.DropFinished(PlayedByNobody, KeepNone), ElementsAre("policy_1-" + Key(3)));
  StateRecord again;
  PolicyCatalogue copy;
  copy.Load(state, nullptr);
  copy.Save(&again);
  EXPECT_EQ(again.SerializeAsString(), state.SerializeAsString());

  const std::unordered_set<std::string> present = {Key(1), "key of nobody"};
  PolicyCatalogue lost;
  lost.Load(state, &present);
  EXPECT_THAT(lost.StoredKeys(), ElementsAre(Key(1)));
  EXPECT_EQ(lost.Newest("policy_0"), 2u);
}

}  // namespace
}  // namespace ding

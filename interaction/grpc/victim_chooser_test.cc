#include "ding_worker/interaction/grpc/victim_chooser.h"

#include <cstddef>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace ding {
namespace {

using Candidates = std::vector<VictimChooser::Candidate>;

// All that are chosen in many attempts.
std::set<size_t> ChosenOf(const Candidates& candidates) {
  VictimChooser chooser;
  std::set<size_t> chosen;
  for (int i = 0; i < 200; ++i) chosen.insert(chooser.Choose(candidates));
  return chosen;
}

TEST(VictimChooserTest, TheOldestSilentConnectionGoes) {
  EXPECT_EQ(ChosenOf({{"a", true}, {"a", true}, {"a", true}}), std::set<size_t>({0}));
  // It goes before an older one that has spoken.
  EXPECT_EQ(ChosenOf({{"a", false}, {"a", true}, {"a", true}}), std::set<size_t>({1}));
}

TEST(VictimChooserTest, AnyConnectionGoesIfAllHaveSpoken) {
  EXPECT_EQ(ChosenOf({{"a", false}}), std::set<size_t>({0}));
  EXPECT_EQ(ChosenOf({{"a", false}, {"a", false}, {"a", false}}), std::set<size_t>({0, 1, 2}));
}

TEST(VictimChooserTest, OnlyTheAddressWithMostConnectionsLosesOne) {
  EXPECT_EQ(ChosenOf({{"a", false}, {"b", false}, {"a", false}}), std::set<size_t>({0, 2}));
  // A silent connection of another address stays, even if it is the oldest one.
  EXPECT_EQ(ChosenOf({{"b", true}, {"a", false}, {"a", false}}), std::set<size_t>({1, 2}));
  EXPECT_EQ(ChosenOf({{"b", true}, {"a", false}, {"a", true}}), std::set<size_t>({2}));
}

TEST(VictimChooserTest, AddressesWithEquallyManyLoseOneOfTheirs) {
  const Candidates candidates = {{"a", true}, {"b", true}, {"b", true}, {"a", true}, {"c", true}};
  for (const size_t chosen : ChosenOf(candidates)) EXPECT_LE(chosen, 1u);
}

}  // namespace
}  // namespace ding

#include <optional>
#include <string>

#include "ding_worker/adapter/merge.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::Optional;
using testing::SizeIs;

TEST(RankQueuesTest, ARoundIsTheFirstMessageOfEachMemberByRank) {
  RankQueues<std::string> queues;
  queues.Reset({7, 3});
  EXPECT_THAT(queues.members(), ElementsAre(7, 3));
  queues.Push(3, "b1");
  queues.Push(3, "b2");
  EXPECT_EQ(queues.TakeRound(), std::nullopt) << "member 7 has sent nothing";
  EXPECT_THAT(queues.queue(3), SizeIs(2));
  queues.Push(7, "a1");
  EXPECT_THAT(queues.TakeRound(), Optional(ElementsAre("a1", "b1")));
  EXPECT_EQ(queues.TakeRound(), std::nullopt);
  EXPECT_THAT(queues.queue(3), ElementsAre("b2"));
}

TEST(RankQueuesTest, ResetDropsAllMessages) {
  RankQueues<std::string> queues;
  queues.Reset({1, 2});
  queues.Push(1, "old");
  queues.Reset({2, 1});
  queues.Push(2, "new");
  EXPECT_EQ(queues.TakeRound(), std::nullopt) << "the old message of member 1 must be gone";
  queues.Push(1, "new, too");
  EXPECT_THAT(queues.TakeRound(), Optional(ElementsAre("new", "new, too")));
}

TEST(RankQueuesTest, WithoutMembersThereIsNoRound) {
  RankQueues<std::string> queues;
  EXPECT_EQ(queues.TakeRound(), std::nullopt);
  queues.Reset({});
  EXPECT_EQ(queues.TakeRound(), std::nullopt);
}

}  // namespace
}  // namespace ding

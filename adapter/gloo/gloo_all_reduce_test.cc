#include "ding_worker/adapter/gloo/gloo_all_reduce.h"

#include <csignal>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/fuzz_testing.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/all_reduce.h"
#include "ding_worker/interaction/all_reduce_conformance.h"
#include "ding_worker/interaction/testing/rank_threads.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

INSTANTIATE_TEST_SUITE_P(Gloo, AllReduceConformance, testing::Values(ConnectGloo));

// The threads of this process by name, and whether each blocks SIGPIPE.
std::map<std::string, bool> Threads() {
  std::map<std::string, bool> threads;
  const std::string tasks = "/proc/self/task";
  const std::vector<std::string> ids = ListDirectory(tasks).value();
  for (const std::string& id : ids) {
    const std::string status = ReadFile(absl::StrCat(tasks, "/", id, "/status")).value_or("");
    const std::string blocked = status.substr(status.find("SigBlk:") + 7, 17);
    threads[id] = ((std::stoull(blocked, nullptr, 16) >> (SIGPIPE - 1)) & 1) != 0;
  }
  return threads;
}

// Ranks that are gone are what its threads write to, and their end by a signal would be the process's.
TEST(GlooAllReduceTest, ItsThreadsAndNoOthersBlockSigpipe) {
  const std::map<std::string, bool> before = Threads();
  LocalRendezvous rendezvous;
  AllReduceOptions options;
  options.group = "a";
  DING_ASSERT_OK_AND_ASSIGN(const auto group, ConnectGloo(options, &rendezvous));
  int started = 0;
  for (const auto& [id, blocks] : Threads()) {
    const bool was_there = before.count(id) > 0;
    EXPECT_EQ(blocks, !was_there) << "thread " << id;
    started += was_there ? 0 : 1;
  }
  EXPECT_GT(started, 0);
}

TEST(GlooAllReduceTest, AHostThatIsNoneIsRefused) {
  LocalRendezvous rendezvous;
  AllReduceOptions options;
  options.group = "a";
  options.host = "no.such.host.invalid";
  const auto group = ConnectGloo(options, &rendezvous);
  EXPECT_FALSE(group.ok());
  EXPECT_THAT(std::string(group.status().message()), HasSubstr("no.such.host.invalid"));
}

TEST(GlooAllReduceTest, ARankThatNeverComesIsNotWaitedForForEver) {
  LocalRendezvous rendezvous;
  AllReduceOptions options;
  options.group = "a";
  options.world_size = 2;
  options.timeout = absl::Milliseconds(300);
  EXPECT_THAT(ConnectGloo(options, &rendezvous), StatusIs(absl::StatusCode::kDeadlineExceeded));
}

// Says what it was told that another rank has set; a mutant of it, if there is a mutator.
class ToldRendezvous : public Rendezvous {
 public:
  absl::Status Set(const std::string& key, const std::string& value) override {
    set_[key] = value;
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> Get(const std::string& key, absl::Duration /*timeout*/) override {
    const auto own = set_.find(key);
    if (own != set_.end()) return own->second;
    const auto found = told_.find(key);
    if (found != told_.end()) return mutator_->Mutate(found->second);
    return absl::DeadlineExceededError(absl::StrCat("nobody set '", key, "'"));
  }
  const std::map<std::string, std::string>& set() const { return set_; }
  void Tell(const std::map<std::string, std::string>& values, Mutator* mutator) {
    told_ = values;
    mutator_ = mutator;
  }

 private:
  std::map<std::string, std::string> set_;
  std::map<std::string, std::string> told_;
  Mutator* mutator_ = nullptr;
};

// A rank may say anything of where it is: the others do not find it, and say so.
TEST(GlooAllReduceFuzz, WhateverARankSaysOfItselfConnectingEnds) {
  AllReduceOptions options;
  options.world_size = 2;
  options.timeout = absl::Milliseconds(20);
  for (const int rank : {0, 1}) {
    options.group = "said";
    options.rank = 1 - rank;
    ToldRendezvous other;
    EXPECT_FALSE(ConnectGloo(options, &other).ok()) << "it is alone";
    ASSERT_THAT(other.set(), Not(IsEmpty()));
    options.rank = rank;
    Fuzz(100, [&](Mutator* mutator) {
      ToldRendezvous told;
      told.Tell(other.set(), mutator);
      options.group = absl::StrCat("fuzz-", mutator->rng()->Next64());
      const auto group = ConnectGloo(options, &told);
      EXPECT_THAT(group.status().code(),
                  AnyOf(absl::StatusCode::kUnavailable, absl::StatusCode::kDeadlineExceeded))
          << group.status();
    });
  }
}

}  // namespace
}  // namespace ding

#include "ding_worker/learner/comm/unsaved_checkpoints.h"

#include "absl/status/status.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/store/mem_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

TEST(UnsavedCheckpointsTest, TakeUnsaved_ReturnsWhyOnce) {
  MemStore store;
  EXPECT_THAT(TakeUnsaved(&store), IsOk());
  NoteLastCheckpoint("policy_0", absl::OkStatus(), &store);
  EXPECT_THAT(TakeUnsaved(&store), IsOk());
  NoteLastCheckpoint("policy_0", absl::PermissionDeniedError("read-only"), &store);
  NoteLastCheckpoint("policy_1", absl::ResourceExhaustedError("the disk is full"), &store);
  NoteLastCheckpoint("policy_0", absl::OkStatus(), &store);
  EXPECT_THAT(TakeUnsaved(&store),
              IsResourceExhausted("of policy_1 is not saved", "the disk is full"));
  EXPECT_THAT(TakeUnsaved(&store), IsOk());
}

}  // namespace
}  // namespace ding

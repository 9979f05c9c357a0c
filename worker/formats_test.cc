// Tests that what earlier versions saved can be loaded, and that what a later version saved is
// refused by an error that names both versions. The fixtures are those of
// worker/testing/make_format_fixtures. See docs/explanation/testing.md.

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/data/episodes.h"
#include "ding_worker/data/safetensors.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/buffer_file.h"
#include "ding_worker/replay_buffer/testing/buffer_types.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "ding_worker/worker/testing/child_program.h"
#include "ding_worker/worker/testing/saved_formats.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr absl::Duration kLong = absl::Minutes(5);

class FormatsTest : public testing::Test {
 protected:
  FormatsTest() {
    std::string folder = absl::StrCat(testing::TempDir(), "/formats_XXXXXX");
    folder_ = mkdtemp(folder.data());
  }
  ~FormatsTest() override { EXPECT_THAT(RemoveRecursively(folder_), IsOk()); }

  std::string Path(const std::string& name) const { return JoinPath(folder_, name); }

  // Copies the safetensors file at `from`, with its tensors "version" increased by ten: the next
  // version of a sequence buffer exists, for those with priorities.
  static void CopyAsLaterVersion(const std::string& from, const std::string& to) {
    DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<SafetensorsReader> reader,
                              SafetensorsReader::OpenSelfChecked(from));
    const auto copy = [&reader](StateWriter* writer) {
      for (const std::string& name : reader->Names()) {
        if (name == kSafetensorsChecksum) continue;
        const TensorInfo info = reader->Info(name).value();
        if (name == "version" || absl::EndsWith(name, "/version")) {
          DING_RETURN_IF_ERROR(writer->WriteInt(name, reader->ReadInt(name).value() + 10));
          continue;
        }
        std::string bytes(static_cast<size_t>(*CheckedByteSize(info.dtype, info.shape)), '\0');
        DING_RETURN_IF_ERROR(reader->Read(name, {absl::MakeSpan(bytes)}));
        DING_RETURN_IF_ERROR(
            writer->Write(name, info.dtype, info.shape, {absl::string_view(bytes)}));
      }
      return absl::OkStatus();
    };
    ASSERT_THAT(WriteSafetensors(to, copy, /*metadata=*/{}, /*self_checked=*/true).status(),
                IsOk());
  }

  std::string folder_;
};

class SerialFormatsTest : public FormatsTest, public testing::WithParamInterface<const char*> {
 protected:
  std::string name() const { return GetParam(); }
};

INSTANTIATE_TEST_SUITE_P(Policies, SerialFormatsTest, testing::Values("dqn", "ppo", "a2c", "bc"));

TEST_P(SerialFormatsTest, ARunGoesOn) {
  const std::string run = UnpackRun(name(), folder_);
  const bool supervised = name() == "bc";
  const double done =
      ExpectedOf(absl::StrCat(name(), supervised ? ".train_iter" : ".env_step")).front();
  std::vector<std::string> args = {absl::StrCat("--exp_dir=", run), "--resume"};
  if (supervised) {
    args.push_back(absl::StrCat("--max_train_iter=", done + 10));
    args.push_back(absl::StrCat("--set=data_set.path=", FixturePath("cartpole.episodes")));
  } else {
    args.push_back(absl::StrCat("--max_env_step=", done + 32));
  }
  ChildProgram serial("worker/serial", args, Path("serial"), {});
  ASSERT_EQ(serial.Wait(kLong), 0) << serial.err();
  EXPECT_THAT(serial.err(),
              AllOf(HasSubstr(absl::StrCat("resuming at ",
                                           supervised ? "train iteration " : "env step ", done)),
                    Not(HasSubstr("inexactly"))));
  EXPECT_THAT(serial.out(), HasSubstr(absl::StrCat(supervised ? "\"train_iter\":" : "\"env_step\":",
                                                   done + (supervised ? 10 : 32))));
}

TEST_P(SerialFormatsTest, ACheckpointPlays) {
  const std::string run = UnpackRun(name(), folder_);
  ChildProgram evaluate("worker/evaluate",
                        {absl::StrCat("--checkpoint=", run, "/ckpt/ckpt_best"), "--episodes=2"},
                        Path("evaluate"), {});
  ASSERT_EQ(evaluate.Wait(kLong), 0) << evaluate.err();
  EXPECT_THAT(evaluate.out(), HasSubstr("\nmean "));
}

TEST_P(SerialFormatsTest, ACheckpointOfALaterVersionIsRefused) {
  const std::string checkpoint = absl::StrCat(UnpackRun(name(), folder_), "/ckpt/ckpt_best");
  ReplaceInFile(JoinPath(checkpoint, "manifest.json"), "\"major_version\": 1",
                "\"major_version\": 2");
  EXPECT_THAT(CheckpointReader::Open(checkpoint),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("version 2."), HasSubstr("1.x"))));
}

TEST_F(FormatsTest, EpisodesAreRead) {
  DING_ASSERT_OK_AND_ASSIGN(const EpisodeSet set, ReadEpisodes(FixturePath("cartpole.episodes")));
  EXPECT_EQ(set.env, "CartPole-v0");
  std::vector<double> lengths;
  for (const Segment& segment : set.episodes.segments) {
    lengths.push_back(static_cast<double>(segment.length));
  }
  EXPECT_EQ(lengths, ExpectedOf("episodes.length"));
  DING_ASSERT_OK_AND_ASSIGN(const std::vector<double> returns, EpisodeReturns(set.episodes));
  EXPECT_EQ(returns, lengths);
}

TEST_F(FormatsTest, EpisodesOfALaterVersionAreRefused) {
  CopyAsLaterVersion(FixturePath("cartpole.episodes"), Path("later"));
  EXPECT_THAT(ReadEpisodes(Path("later")),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("it has version 11, this program reads version 1")));
}

// Every tensor file uses this container.
TEST_F(FormatsTest, ASafetensorsFileOfALaterVersionIsRefused) {
  const std::string path = Path("later");
  ASSERT_THAT(WriteFileAtomically(path, *ReadFile(FixturePath("cartpole.episodes"))), IsOk());
  ReplaceInFile(path, "\"ding_worker_version\":\"1.", "\"ding_worker_version\":\"2.");
  EXPECT_THAT(ReadEpisodes(path),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("has version 2."), HasSubstr("this program reads 1."))));
}

class BufferFormatsTest : public FormatsTest, public testing::WithParamInterface<BufferType> {};

INSTANTIATE_TEST_SUITE_P(Types, BufferFormatsTest, testing::ValuesIn(BufferTypes()),
                         NameOfBufferType);

TEST_P(BufferFormatsTest, TheContentIsLoaded) {
  const std::unique_ptr<IBuffer> buffer = EmptyFixtureBuffer(GetParam());
  ASSERT_THAT(LoadData(buffer.get(), FixturePath(FixtureFile(GetParam()))), IsOk());
  const std::string key = absl::StrCat("buffer_", GetParam().name);
  EXPECT_EQ(buffer->count(), ExpectedOf(absl::StrCat(key, ".count")).front());
  EXPECT_EQ(buffer->push_count(), ExpectedOf(absl::StrCat(key, ".push_count")).front());
  DING_ASSERT_OK_AND_ASSIGN(const int64_t rows, CountDrawnRows(buffer.get()));
  EXPECT_EQ(rows, ExpectedOf(absl::StrCat(key, ".rows")).front());
  // The loaded buffer continues: it accepts further rows.
  TestStreams more(/*first_step=*/1000);
  EXPECT_THAT(buffer->Push(more.Make({{7, 3, SegmentEnd::kTerminated}}), 0), IsOk());
}

TEST_P(BufferFormatsTest, ABufferOfALaterVersionIsRefused) {
  CopyAsLaterVersion(FixturePath(FixtureFile(GetParam())), Path("later"));
  const std::unique_ptr<IBuffer> buffer = EmptyFixtureBuffer(GetParam());
  EXPECT_THAT(LoadData(buffer.get(), Path("later")),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       testing::ContainsRegex(
                           "its state has version [0-9]+, this program reads version [0-9]+")));
  EXPECT_EQ(buffer->count(), 0);
}

}  // namespace
}  // namespace ding

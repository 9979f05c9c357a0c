#include "ding_worker/data/checkpoint.h"

#include <sys/stat.h>

#include <atomic>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using internal_data::DecodeManifest;
using internal_data::EncodeManifest;
using internal_data::Manifest;
using internal_data::ManifestEnd;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

CheckpointComponent Saves(absl::string_view name, int64_t value) {
  return {std::string(name), [value](StateWriter* writer) { return writer->WriteInt("x", value); }};
}

class CheckpointTest : public testing::Test {
 protected:
  absl::Status Write(int64_t value) {
    return WriteCheckpoint(path_, {"train", {{"iteration", absl::StrCat(value)}}},
                           {Saves("model", value), Saves("optimizer.adam", value + 1)});
  }
  // The value that the checkpoint holds; fails the test unless it is whole.
  int64_t Value() {
    const auto checkpoint = CheckpointReader::Open(path_);
    EXPECT_THAT(checkpoint, IsOk());
    if (!checkpoint.ok()) return -1;
    const int64_t value = checkpoint->Component("model").value()->ReadInt("x").value();
    EXPECT_EQ(checkpoint->Component("optimizer.adam").value()->ReadInt("x").value(), value + 1);
    EXPECT_EQ(checkpoint->info().fields.at("iteration"), absl::StrCat(value));
    return value;
  }
  std::vector<std::string> Names() const { return ListDirectory(folder_).value(); }
  std::vector<std::string> Files() const { return ListDirectory(path_).value(); }

  const std::string folder_ = FreshTestFolder();
  const std::string path_ = JoinPath(folder_, "c");
};

TEST_F(CheckpointTest, RoundTrips) {
  ASSERT_THAT(Write(5), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, CheckpointReader::Open(path_));
  EXPECT_EQ(reader.info().kind, "train");
  EXPECT_THAT(reader.info().fields, ElementsAre(Pair("iteration", "5")));
  EXPECT_THAT(reader.Components(), ElementsAre("model", "optimizer.adam"));
  EXPECT_EQ(Value(), 5);
  EXPECT_THAT(Files(),
              ElementsAre("manifest.json", "model.safetensors", "optimizer.adam.safetensors"));
  EXPECT_THAT(Names(), ElementsAre("c"));
}

TEST_F(CheckpointTest, AFifoInThePlaceOfAFileIsRefusedAtOnce) {
  for (const char* const name : {"manifest.json", "model.safetensors"}) {
    ASSERT_THAT(Write(5), IsOk());
    const std::string file = JoinPath(path_, name);
    ASSERT_THAT(RemoveFile(file), IsOk());
    ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
    const absl::Status refused = CheckpointReader::Open(path_).status();
    EXPECT_FALSE(refused.ok());
    EXPECT_THAT(std::string(refused.message()), AllOf(HasSubstr(file), HasSubstr("it is a FIFO")));
    ASSERT_THAT(RemoveRecursively(path_), IsOk());
  }
}

TEST_F(CheckpointTest, TheManifestIsReadable) {
  ASSERT_THAT(Write(5), IsOk());
  const std::string text = ReadFile(JoinPath(path_, "manifest.json")).value();
  EXPECT_THAT(text, HasSubstr("{\n  \"format\": \"ding_worker checkpoint\",\n"
                              "  \"major_version\": 1,\n  \"minor_version\": 0,\n"
                              "  \"kind\": \"train\",\n"
                              "  \"fields\": {\n    \"iteration\": \"5\"\n  },\n"
                              "  \"files\": [\n    {\n      \"name\": \"model.safetensors\",\n"));
}

TEST_F(CheckpointTest, TheManifestCanBeReadAlone) {
  ASSERT_THAT(Write(5), IsOk());
  ASSERT_THAT(RemoveFile(JoinPath(path_, "model.safetensors")), IsOk());
  EXPECT_FALSE(CheckpointReader::Open(path_).ok());
  DING_ASSERT_OK_AND_ASSIGN(const CheckpointInfo info, CheckpointReader::ReadInfo(path_));
  EXPECT_EQ(info.kind, "train");
  EXPECT_THAT(info.fields, ElementsAre(Pair("iteration", "5")));
  EXPECT_THAT(CheckpointReader::ReadInfo(path_ + "x"), IsNotFound("there is no checkpoint at"));
}

TEST_F(CheckpointTest, CheckpointFolder_AFolderOfARun_MeansItsBest) {
  const std::string run = JoinPath(folder_, "run");
  const std::string folder = JoinPath(run, "ckpt");
  const std::string best = JoinPath(folder, "ckpt_best");
  ASSERT_THAT(CreateDirectories(folder), IsOk());
  EXPECT_EQ(CheckpointFolder(run), run) << "there is none";
  ASSERT_THAT(WriteCheckpoint(best, {"train", {}}, {Saves("model", 1)}), IsOk());
  for (const std::string& path : {run, folder, best}) EXPECT_EQ(CheckpointFolder(path), best);
  const std::string other = JoinPath(folder, "iteration_5");
  ASSERT_THAT(WriteCheckpoint(other, {"train", {}}, {Saves("model", 1)}), IsOk());
  EXPECT_EQ(CheckpointFolder(other), other);
}

TEST_F(CheckpointTest, TheErrorForAMissingComponentListsTheExistingOnes) {
  ASSERT_THAT(Write(5), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, CheckpointReader::Open(path_));
  EXPECT_THAT(reader.Component("buffer"),
              IsNotFound(path_, "'buffer'", "it has: model, optimizer.adam"));
}

TEST_F(CheckpointTest, ReplacesACheckpointOfTheSameName) {
  ASSERT_THAT(Write(1), IsOk());
  ASSERT_THAT(Write(2), IsOk());
  EXPECT_EQ(Value(), 2);
  EXPECT_THAT(Names(), ElementsAre("c"));
}

TEST_F(CheckpointTest, AFailedWriteKeepsTheOldCheckpoint) {
  ASSERT_THAT(Write(1), IsOk());
  const CheckpointComponent failing = {
      "broken", [](StateWriter*) { return absl::InternalError("cannot save this"); }};
  EXPECT_THAT(WriteCheckpoint(path_, {}, {Saves("model", 2), failing}),
              IsInternal("broken.safetensors", "cannot save this"));
  EXPECT_EQ(Value(), 1);
  EXPECT_THAT(WriteCheckpoint(path_, {"\xff", {}}, {Saves("model", 2)}), IsInvalid("not UTF-8"));
  {
    const FileSizeLimit full_disk(16);
    EXPECT_THAT(Write(3), IsResourceExhausted(path_));
  }
  EXPECT_EQ(Value(), 1);
  EXPECT_THAT(Names(), ElementsAre("c"));
}

// The disk is full after any number of bytes: of a component, or of the manifest.
TEST_F(CheckpointTest, AFullDiskAtAnySizeKeepsTheOldCheckpoint) {
  ASSERT_THAT(Write(1), IsOk());
  int failures = 0;
  for (rlim_t bytes = 0; bytes < 1000; bytes += 50) {
    absl::Status status;
    {
      const FileSizeLimit full_disk(bytes);
      status = WriteCheckpoint(path_, {"train", {{"iteration", "2"}}},
                               {Saves("model", 2), Saves("optimizer.adam", 3)});
    }
    failures += !status.ok();
    EXPECT_EQ(Value(), status.ok() ? 2 : 1) << bytes << " bytes: " << status;
    EXPECT_THAT(Names(), ElementsAre("c"));
    if (status.ok()) {
      ASSERT_THAT(Write(1), IsOk());
    }
  }
  EXPECT_GT(failures, 3);
  EXPECT_LT(failures, 20);
}

TEST_F(CheckpointTest, NamesMustBeFitForFiles) {
  for (const std::string& name :
       {std::string(""), std::string("a/b"), std::string(".."), std::string(".hidden"),
        std::string("a b"), std::string(201, 'a')}) {
    EXPECT_THAT(WriteCheckpoint(path_, {}, {Saves(name, 1)}), IsInvalid("'" + name + "'"));
  }
  EXPECT_THAT(WriteCheckpoint(path_, {}, {Saves("a", 1), Saves("a", 2)}),
              IsInvalid("'a' appears twice"));
  EXPECT_THAT(Names(), testing::IsEmpty());
}

TEST_F(CheckpointTest, OtherFoldersAreNotReplaced) {
  ASSERT_THAT(CreateDirectories(JoinPath(path_, "precious")), IsOk());
  EXPECT_THAT(Write(1), IsFailedPrecondition(path_, "is not a checkpoint"));
  EXPECT_TRUE(IsDirectory(JoinPath(path_, "precious")));
}

TEST_F(CheckpointTest, AMissingParentFolderIsNamed) {
  EXPECT_THAT(WriteCheckpoint(JoinPath(folder_, "none/c"), {}, {}), IsNotFound("none/c"));
}

TEST_F(CheckpointTest, AMissingCheckpointIsNotFound) {
  EXPECT_THAT(CheckpointReader::Open(path_), IsNotFound("no checkpoint at '" + path_));
  ASSERT_THAT(CreateDirectories(path_), IsOk());
  EXPECT_THAT(CheckpointReader::Open(path_), IsNotFound("manifest.json"));
}

TEST_F(CheckpointTest, AMissingFileIsNamed) {
  ASSERT_THAT(Write(1), IsOk());
  ASSERT_THAT(RemoveRecursively(JoinPath(path_, "model.safetensors")), IsOk());
  EXPECT_THAT(CheckpointReader::Open(path_), IsDataLoss("model.safetensors"));
}

TEST_F(CheckpointTest, EveryTruncationOfEveryFileIsRefused) {
  ASSERT_THAT(Write(1), IsOk());
  for (const std::string& name : Files()) {
    const std::string file = JoinPath(path_, name);
    const std::string good = ReadFile(file).value();
    for (size_t size = 0; size < good.size(); ++size) {
      OverwriteFile(file, good.substr(0, size));
      ASSERT_THAT(CheckpointReader::Open(path_), IsDataLoss(file)) << size << " bytes";
    }
    OverwriteFile(file, good + "x");
    ASSERT_THAT(CheckpointReader::Open(path_), IsDataLoss());
    OverwriteFile(file, good);
  }
  EXPECT_EQ(Value(), 1);
}

TEST_F(CheckpointTest, EveryFlippedBitOfEveryFileIsRefused) {
  ASSERT_THAT(Write(1), IsOk());
  for (const std::string& name : Files()) {
    const std::string file = JoinPath(path_, name);
    const std::string good = ReadFile(file).value();
    for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
      std::string flipped = good;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
      OverwriteFile(file, flipped);
      const absl::Status status = CheckpointReader::Open(path_).status();
      // A bit of the version makes it one of another version.
      ASSERT_TRUE(status.code() == absl::StatusCode::kDataLoss ||
                  status.code() == absl::StatusCode::kFailedPrecondition)
          << "bit " << bit << ": " << status;
      ASSERT_THAT(std::string(status.message()), HasSubstr(file));
    }
    OverwriteFile(file, good);
  }
  EXPECT_EQ(Value(), 1);
}

class ManifestTest : public testing::Test {
 protected:
  ManifestTest() {
    manifest_.info = {"kind", {{"a", "1"}, {"b", "\"quoted\"\n"}}};
    manifest_.files = {{"model.safetensors", 123, 0xdeadbeef}};
    good_ = EncodeManifest(manifest_).value();
  }
  // `good_` with a replacement and the checksum that fits.
  std::string Replaced(absl::string_view from, absl::string_view to) const {
    const std::string body = good_.substr(0, good_.size() - ManifestEnd("").size());
    const std::string replaced = absl::StrReplaceAll(body, {{from, to}});
    EXPECT_NE(replaced, body) << from;
    return replaced + ManifestEnd(replaced);
  }

  Manifest manifest_;
  std::string good_;
};

TEST_F(ManifestTest, RoundTrips) {
  DING_ASSERT_OK_AND_ASSIGN(const Manifest decoded, DecodeManifest(good_));
  EXPECT_EQ(decoded.info.kind, "kind");
  EXPECT_EQ(decoded.info.fields, manifest_.info.fields);
  ASSERT_EQ(decoded.files.size(), 1u);
  EXPECT_EQ(decoded.files[0].name, "model.safetensors");
  EXPECT_EQ(decoded.files[0].size_bytes, 123);
  EXPECT_EQ(decoded.files[0].crc32c, 0xdeadbeef);
  EXPECT_THAT(DecodeManifest(EncodeManifest({}).value()), IsOk());
}

TEST_F(ManifestTest, OnlyTheSameMajorVersionIsRead) {
  EXPECT_THAT(DecodeManifest(Replaced("\"minor_version\": 0", "\"minor_version\": 9")), IsOk());
  EXPECT_THAT(DecodeManifest(Replaced("\"kind\":", "\"new_in_1_9\": [1],\n  \"kind\":")), IsOk());
  EXPECT_THAT(DecodeManifest(Replaced("\"major_version\": 1", "\"major_version\": 2")),
              IsFailedPrecondition("version 2.0", "reads versions 1.x"));
}

TEST_F(ManifestTest, AnEditedManifestIsRefused) {
  EXPECT_THAT(DecodeManifest(absl::StrReplaceAll(good_, {{"123", "124"}})),
              IsDataLoss("corrupted or edited"));
}

TEST_F(ManifestTest, InvalidValuesAreRefusedEvenWithAGoodChecksum) {
  const auto expect_refused = [&](absl::string_view from, absl::string_view to,
                                  absl::string_view reason) {
    EXPECT_THAT(DecodeManifest(Replaced(from, to)), IsDataLoss(std::string(reason)));
  };
  expect_refused("ding_worker checkpoint", "other", "format is 'other'");
  expect_refused("\"kind\": \"kind\"", "\"kind\": 3", "'kind' is not a string");
  expect_refused("\"kind\": \"kind\"", "\"dink\": \"\"", "'kind' is missing");
  expect_refused("\"a\": \"1\"", "\"a\": 1", "a field is not a string");
  expect_refused("123", "-123", "'size_bytes' is not a count");
  expect_refused("123", "1.5", "'size_bytes' is not a count");
  expect_refused("123", "18446744073709551615", "'size_bytes' is not a count");
  expect_refused("deadbeef", "deadbee", "is not a checksum");
  expect_refused("deadbeef", "deadbeeg", "is not a checksum");
  expect_refused("model.safetensors", "../model.safetensors", "is not a file name");
  expect_refused("model.safetensors", "/etc/passwd", "is not a file name");
  expect_refused("model.safetensors", "model", "is not a file name");
  expect_refused("\"major_version\": 1", "\"major_version\": \"1\"", "not a count");
  EXPECT_THAT(DecodeManifest(""), IsDataLoss("not JSON"));
  EXPECT_THAT(DecodeManifest("[]"), IsDataLoss());
  EXPECT_THAT(DecodeManifest(std::string(1 << 20, '[')), IsDataLoss());
}

std::string Path(absl::string_view name) { return JoinPath(testing::TempDir(), name); }

CheckpointComponent Number(int64_t value) {
  return {"number", [value](StateWriter* writer) { return writer->WriteInt("value", value); }};
}

int64_t NumberIn(const std::string& path) {
  const absl::StatusOr<CheckpointReader> checkpoint = CheckpointReader::Open(path);
  EXPECT_THAT(checkpoint, IsOk());
  return checkpoint.ok() ? *(*checkpoint->Component("number"))->ReadInt("value") : -1;
}

TEST(CheckpointWriter, WritesInOrderAndFinishesBeforeDestruction) {
  std::vector<int> done;
  {
    CheckpointWriter writer;
    for (int i = 0; i < 10; ++i) {
      writer.Write(Path("in_order"), {"test", {}}, {Number(i)}, [&done, i](const absl::Status& s) {
        EXPECT_THAT(s, IsOk());
        done.push_back(i);
      });
    }
  }
  EXPECT_THAT(done, testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_EQ(NumberIn(Path("in_order")), 9);
}

// A component whose writing begins, and then waits to be let go.
class SlowComponent {
 public:
  CheckpointComponent component() {
    return {"number", [this](StateWriter* writer) {
              if (calls_++ == 0) {
                begun_.set_value();
                go_on_.get_future().wait();
              }
              return writer->WriteInt("value", 7);
            }};
  }
  void WaitUntilBegun() { begun_.get_future().wait(); }
  void LetGo() { go_on_.set_value(); }

 private:
  int calls_ = 0;
  std::promise<void> begun_;
  std::promise<void> go_on_;
};

TEST(CheckpointWriter, WriteReturnsBeforeItIsDoneAndFlushWaits) {
  SlowComponent slow;
  CheckpointWriter writer;
  EXPECT_TRUE(writer.idle());
  std::atomic<bool> done{false};
  writer.Write(Path("slow"), {"test", {}}, {slow.component()},
               [&](const absl::Status&) { done = true; });
  slow.WaitUntilBegun();
  EXPECT_FALSE(writer.idle());
  EXPECT_FALSE(done);
  slow.LetGo();
  writer.Flush();
  EXPECT_TRUE(writer.idle());
  EXPECT_TRUE(done);
  EXPECT_EQ(NumberIn(Path("slow")), 7);
}

TEST(CheckpointWriter, WriteBlocksWhenTooManyWritesWait) {
  SlowComponent slow;
  std::atomic<bool> let_go{false};
  CheckpointWriter writer;
  writer.Write(Path("bound"), {"test", {}}, {slow.component()}, [](const absl::Status&) {});
  slow.WaitUntilBegun();
  std::promise<void> others_wait;
  std::thread saver([&] {
    for (size_t i = 0; i < CheckpointWriter::kMaxWaiting; ++i) {
      writer.Write(Path("bound"), {"test", {}}, {Number(1)}, [](const absl::Status&) {});
    }
    others_wait.set_value();
    writer.Write(Path("bound"), {"test", {}}, {Number(2)}, [](const absl::Status&) {});
    EXPECT_TRUE(let_go);  // Before that, there was no room.
  });
  others_wait.get_future().wait();
  let_go = true;
  slow.LetGo();
  saver.join();
  writer.Flush();
  EXPECT_EQ(NumberIn(Path("bound")), 2);
}

TEST(CheckpointWriter, ReportsAFailedWriteAndContinues) {
  absl::Status missing_folder;
  {
    CheckpointWriter writer;
    writer.Write(Path("no/such/folder"), {"test", {}}, {Number(1)},
                 [&](const absl::Status& status) { missing_folder = status; });
    writer.Write(Path("after_it"), {"test", {}}, {Number(2)},
                 [](const absl::Status& status) { EXPECT_THAT(status, IsOk()); });
  }
  EXPECT_THAT(missing_folder, IsNotFound());
  EXPECT_EQ(NumberIn(Path("after_it")), 2);
}

}  // namespace
}  // namespace ding

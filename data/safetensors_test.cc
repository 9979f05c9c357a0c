#include "ding_worker/data/safetensors.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/crc32c.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/safetensors_header.h"
#include "ding_worker/data/spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;

std::string LittleEndian(uint64_t value) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
  return bytes;
}

std::string WithLength(absl::string_view header) {
  return absl::StrCat(LittleEndian(header.size()), header);
}

// Bools before doubles, so that the order of the file is another than the order written.
absl::Status SaveSample(StateWriter* writer) {
  DING_RETURN_IF_ERROR(writer->Write("flags", DType::kBool, {3}, {absl::string_view("\1\0\1", 3)}));
  DING_RETURN_IF_ERROR(writer->WriteDouble("loss", 0.25));
  DING_RETURN_IF_ERROR(
      writer->WriteTensor("net/weight", Tensor::FromSpan<float>({2, 2}, {1, 2, 3, 4})));
  DING_RETURN_IF_ERROR(writer->WriteString("empty", ""));
  DING_RETURN_IF_ERROR(writer->WriteInt("steps", -7));
  DING_RETURN_IF_ERROR(writer->WriteSpan<int32_t>("ids", {5, 6}));
  return writer->WriteString("text", "h\xc3\xa9llo");
}

class SafetensorsTest : public testing::Test {
 protected:
  std::string WriteSample() {
    EXPECT_THAT(WriteSafetensors(path_, SaveSample, {{"who", "test"}}), IsOk());
    return ReadFile(path_).value();
  }
  absl::StatusOr<std::unique_ptr<SafetensorsReader>> OpenBytes(absl::string_view bytes) {
    OverwriteFile(path_, bytes);
    return SafetensorsReader::Open(path_);
  }

  const std::string folder_ = FreshTestFolder();
  const std::string path_ = JoinPath(folder_, "f.safetensors");
};

TEST_F(SafetensorsTest, EverythingRoundTrips) {
  DING_ASSERT_OK_AND_ASSIGN(const SafetensorsFileInfo info,
                            WriteSafetensors(path_, SaveSample, {{"who", "test"}}));
  const std::string bytes = ReadFile(path_).value();
  EXPECT_EQ(info.size_bytes, static_cast<int64_t>(bytes.size()));
  EXPECT_EQ(info.crc32c, Crc32c(bytes));

  DING_ASSERT_OK_AND_ASSIGN(const auto reader, SafetensorsReader::Open(path_, info.crc32c));
  StateDict expected;
  ASSERT_THAT(SaveSample(&expected), IsOk());
  EXPECT_EQ(reader->Names(), expected.Names());
  for (const auto& [name, tensor] : expected.tensors()) {
    DING_ASSERT_OK_AND_ASSIGN(const Tensor read, reader->ReadTensor(name));
    EXPECT_TRUE(BitwiseEqual(read, tensor)) << name;
  }
  EXPECT_EQ(reader->metadata().at("who"), "test");
  EXPECT_EQ(reader->metadata().at("ding_worker_version"), "1.0");
}

TEST_F(SafetensorsTest, AFileMayHaveNoTensors) {
  ASSERT_THAT(WriteSafetensors(path_, [](StateWriter*) { return absl::OkStatus(); }), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const auto reader, SafetensorsReader::Open(path_));
  EXPECT_THAT(reader->Names(), IsEmpty());
}

// Byte for byte what the format says; Python's safetensors reads it.
TEST_F(SafetensorsTest, TheBytesAreThoseOfTheFormat) {
  const auto save = [](StateWriter* writer) {
    DING_RETURN_IF_ERROR(writer->WriteString("s", "ab"));
    return writer->WriteSpan<float>("w", {1, -2});
  };
  ASSERT_THAT(WriteSafetensors(path_, save), IsOk());
  std::string header = R"({"__metadata__":{"ding_worker_version":"1.0"},)"
                       R"("s":{"dtype":"U8","shape":[2],"data_offsets":[8,10]},)"
                       R"("w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  while (header.size() % 8 != 0) header += ' ';
  EXPECT_EQ(ReadFile(path_).value(),
            WithLength(header) + std::string("\0\0\x80\x3f\0\0\0\xc0", 8) + "ab");
}

// As safetensors.numpy.save({"weight": [[1, 2], [3, 4]] float32, "ids": [7, -1] int64,
// "mask": [True, False] bool}, {"format": "np"}) lays it out.
TEST_F(SafetensorsTest, ReadsWhatPythonWrote) {
  std::string header = R"({"__metadata__":{"format":"np"},)"
                       R"("ids":{"dtype":"I64","shape":[2],"data_offsets":[0,16]},)"
                       R"("weight":{"dtype":"F32","shape":[2,2],"data_offsets":[16,32]},)"
                       R"("mask":{"dtype":"BOOL","shape":[2],"data_offsets":[32,34]}})";
  while (header.size() % 8 != 0) header += ' ';
  const std::string data = LittleEndian(7) + LittleEndian(~uint64_t{0}) +
                           std::string("\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40\0\0\x80\x40\1\0", 18);
  DING_ASSERT_OK_AND_ASSIGN(const auto reader, OpenBytes(WithLength(header) + data));
  EXPECT_THAT(reader->Names(), ElementsAre("ids", "weight", "mask"));
  DING_ASSERT_OK_AND_ASSIGN(const Tensor ids, reader->ReadTensor("ids"));
  EXPECT_THAT(ids.data<int64_t>(), ElementsAre(7, -1));
  DING_ASSERT_OK_AND_ASSIGN(const Tensor weight, reader->ReadTensor("weight"));
  EXPECT_EQ(weight.DebugString(), "float32[2, 2]");
  EXPECT_THAT(weight.data<float>(), ElementsAre(1, 2, 3, 4));
  DING_ASSERT_OK_AND_ASSIGN(const Tensor mask, reader->ReadTensor("mask"));
  EXPECT_EQ(mask.dtype(), DType::kBool);
  EXPECT_THAT(mask.data<uint8_t>(), ElementsAre(1, 0));
}

// Readers that map the file need it, and reject the file or copy otherwise.
TEST_F(SafetensorsTest, TensorsAreAligned) {
  const std::string bytes = WriteSample();
  const size_t header_size = static_cast<unsigned char>(bytes[0]) +
                             256 * static_cast<size_t>(static_cast<unsigned char>(bytes[1]));
  EXPECT_EQ((8 + header_size) % 8, 0u);
  const std::string data = bytes.substr(8 + header_size);
  EXPECT_EQ(data.substr(0, 16), std::string("\0\0\0\0\0\0\xd0\x3f", 8) + LittleEndian(~6ull));
  EXPECT_EQ(data.substr(16 + 16, 8), std::string("\5\0\0\0\6\0\0\0", 8));
  EXPECT_EQ(data.substr(40), std::string("\1\0\1h\xc3\xa9llo", 9));
}

TEST_F(SafetensorsTest, SavesOnceToMeasureAndOnceForEachElementSize) {
  int calls = 0;
  ASSERT_THAT(WriteSafetensors(path_,
                               [&](StateWriter* writer) {
                                 ++calls;
                                 DING_RETURN_IF_ERROR(writer->WriteInt("a", 1));
                                 return writer->WriteString("b", "x");
                               }),
              IsOk());
  EXPECT_EQ(calls, 3);
}

TEST_F(SafetensorsTest, PartsOfManySizesAreOneTensor) {
  std::string large(300000, '\0');
  for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 31 % 251);
  const absl::string_view bytes = large;
  ASSERT_THAT(WriteSafetensors(path_,
                               [&](StateWriter* writer) {
                                 return writer->Write("x", DType::kUint8, {300000},
                                                      {bytes.substr(0, 1), bytes.substr(1, 99999),
                                                       "", bytes.substr(100000)});
                               }),
              IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const auto reader, SafetensorsReader::Open(path_));
  std::string head(70001, '\0'), tail(300000 - 70001, '\0');
  ASSERT_THAT(reader->Read("x", {absl::MakeSpan(head), absl::MakeSpan(tail)}), IsOk());
  EXPECT_EQ(head + tail == large, true);
}

TEST_F(SafetensorsTest, BadWritesAreRefusedAndTheOldFileStays) {
  const std::string old = WriteSample();
  const auto expect_refused = [&](const std::function<absl::Status(StateWriter*)>& save,
                                  absl::StatusCode code, absl::string_view message) {
    EXPECT_THAT(WriteSafetensors(path_, save), IsError(code, path_, std::string(message)));
    EXPECT_EQ(ReadFile(path_).value(), old);
    EXPECT_THAT(ListDirectory(folder_).value(), ElementsAre("f.safetensors"));
  };
  expect_refused(
      [](StateWriter* writer) {
        DING_RETURN_IF_ERROR(writer->WriteInt("a", 1));
        return writer->WriteInt("a", 1);
      },
      absl::StatusCode::kAlreadyExists, "'a' is written twice");
  expect_refused([](StateWriter* writer) { return writer->WriteInt("__metadata__", 1); },
                 absl::StatusCode::kInvalidArgument, "cannot be named");
  expect_refused([](StateWriter* writer) { return writer->WriteInt("\xff", 1); },
                 absl::StatusCode::kInvalidArgument, "not UTF-8");
  expect_refused(
      [](StateWriter* writer) { return writer->Write("a", DType::kFloat32, {2}, {"abc"}); },
      absl::StatusCode::kInvalidArgument, "'a' is written with 3 bytes as float32[2]");
  expect_refused([](StateWriter*) { return absl::AbortedError("not now"); },
                 absl::StatusCode::kAborted, "not now");
}

TEST_F(SafetensorsTest, StateThatChangesWhileItIsSavedIsRefused) {
  const auto expect_refused = [&](const std::function<absl::Status(StateWriter*, int)>& save,
                                  absl::string_view message) {
    int call = 0;
    EXPECT_THAT(WriteSafetensors(path_, [&](StateWriter* writer) { return save(writer, call++); }),
                IsFailedPrecondition(std::string(message)));
    EXPECT_FALSE(PathExists(path_));
  };
  expect_refused([](StateWriter* w, int call) { return w->WriteInt(call ? "b" : "a", 1); },
                 "'b' was 'a', int64[]");
  expect_refused([](StateWriter* w, int call) { return w->WriteString("a", call ? "xx" : "x"); },
                 "'a' was 'a', uint8[1]");
  expect_refused(
      [](StateWriter* w, int call) {
        DING_RETURN_IF_ERROR(w->WriteInt("a", 1));
        return call ? absl::OkStatus() : w->WriteInt("b", 1);
      },
      "'b' is not written again");
  expect_refused(
      [](StateWriter* w, int call) {
        DING_RETURN_IF_ERROR(w->WriteInt("a", 1));
        return call ? w->WriteInt("b", 1) : absl::OkStatus();
      },
      "'b' was not there");
}

TEST_F(SafetensorsTest, AFullDiskLeavesTheOldFile) {
  const std::string old = WriteSample();
  {
    const FileSizeLimit limit(4096);
    const std::string large(10000, 'x');
    EXPECT_THAT(WriteSafetensors(path_, [&](StateWriter* w) { return w->WriteString("a", large); }),
                IsResourceExhausted(path_));
  }
  EXPECT_EQ(ReadFile(path_).value(), old);
  EXPECT_THAT(ListDirectory(folder_).value(), ElementsAre("f.safetensors"));
}

TEST_F(SafetensorsTest, ReadErrorsNameTheTensorAndTheFile) {
  WriteSample();
  DING_ASSERT_OK_AND_ASSIGN(const auto reader, SafetensorsReader::Open(path_));
  EXPECT_THAT(reader->ReadTensor("other"), IsNotFound(path_, "'other'"));
  EXPECT_THAT(reader->ReadInt("loss"), IsInvalid("saved 'loss' is float64[]"));
  std::string bytes(7, '\0');
  EXPECT_THAT(reader->Read("loss", {absl::MakeSpan(bytes)}), IsInvalid("has 8 bytes, expected 7"));
  EXPECT_THAT(SafetensorsReader::Open(JoinPath(folder_, "none")), IsNotFound("none"));
  EXPECT_THAT(SafetensorsReader::Open(folder_), IsInvalid());
}

TEST_F(SafetensorsTest, AMalformedHeaderIsRefusedWithTheReason) {
  const auto expect_refused = [&](absl::string_view header, absl::string_view reason) {
    EXPECT_THAT(OpenBytes(absl::StrCat(WithLength(header), "datadata")),
                IsDataLoss(path_, std::string(reason)))
        << header;
  };
  const auto tensor = [](absl::string_view members) {
    return absl::StrCat(R"({"a":{)", members, "}}");
  };
  const std::string good = R"("dtype":"U8","shape":[8],"data_offsets":[0,8])";
  EXPECT_THAT(OpenBytes(WithLength(tensor(good)) + "datadata"), IsOk());

  expect_refused("", "not JSON");
  expect_refused("{", "not JSON");
  expect_refused("{}}", "not JSON");
  expect_refused("[]", "unexpected an array");
  expect_refused("7", "unexpected a number");
  expect_refused("{\"\xff\":1}", "not JSON");
  expect_refused(R"({"a":1})", "unexpected a number at 'a'");
  expect_refused(R"({"a":null})", "unexpected null at 'a'");
  expect_refused(R"({"a":true})", "unexpected a boolean at 'a'");
  expect_refused(R"({"a":{}})", "'a' has not all of dtype");
  expect_refused(R"({"__metadata__":{"k":1}})", "unexpected a number at 'k'");
  expect_refused(R"({"__metadata__":{"k":{}}})", "unexpected an object at 'k'");
  expect_refused(R"({"__metadata__":{"k":"1","k":"2"}})", "metadata 'k' appears twice");
  expect_refused(tensor(good + R"(,"x":{})"), "unexpected an object at 'x'");
  expect_refused(tensor(good + R"(,"x":"y")"), "unexpected a string at 'x'");
  expect_refused(tensor(good + R"(,"dtype":"U8")"), "unexpected a string at 'dtype'");
  expect_refused(tensor(good + R"(,"shape":[])"), "unexpected an array at 'shape'");
  expect_refused(absl::StrCat("{\"a\":{", good, "},\"a\":{", good, "}}"), "'a' appears twice");
  const auto with = [&](absl::string_view shape, absl::string_view offsets) {
    return tensor(absl::StrCat(R"("dtype":"U8","shape":)", shape, R"(,"data_offsets":)", offsets));
  };
  expect_refused(with("[-8]", "[0,8]"), "unexpected a negative number");
  expect_refused(with("[8.0]", "[0,8]"), "unexpected a fraction");
  expect_refused(with("[[8]]", "[0,8]"), "unexpected an array");
  expect_refused(with("[9223372036854775808]", "[0,8]"), "unexpected a number above 2^63");
  expect_refused(with("[99999999999999999999]", "[0,8]"), "unexpected a fraction");
  expect_refused(with("[4294967296,4294967296]", "[0,8]"), "uint8[4294967296, 4294967296]");
  expect_refused(with("[9]", "[0,8]"), "uint8[9], is said to be at bytes 0 to 8");
  expect_refused(with("[8]", "[8,0]"), "at bytes 8 to 0");
  expect_refused(with("[8]", "[0]"), "has 1 data_offsets, not 2");
  expect_refused(with("[8]", "[0,8,8]"), "unexpected a number");
  expect_refused(with("[7]", "[1,8]"), "'a' begins at byte 1 of the data, expected 0");
  expect_refused(with("[7]", "[0,7]"), "the tensors have 7 bytes, the file has 8");
  expect_refused(with("[9]", "[0,9]"), "the tensors have 9 bytes, the file has 8");
  const std::string nested(100000, '[');
  expect_refused(absl::StrCat(R"({"a":)", nested), "unexpected an array at 'a'");
}

TEST_F(SafetensorsTest, OverlappingTensorsAreRefused) {
  EXPECT_THAT(OpenBytes(WithLength(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                                   R"("b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})") +
                        "123456"),
              IsDataLoss("'b' begins at byte 2 of the data, expected 4"));
}

TEST_F(SafetensorsTest, AnImpossibleHeaderSizeIsRefusedBeforeMemoryIsTaken) {
  for (const uint64_t size : {~uint64_t{0}, uint64_t{1} << 62, uint64_t{100}}) {
    EXPECT_THAT(OpenBytes(LittleEndian(size) + "{}"), IsDataLoss("2 follow"));
  }
  EXPECT_THAT(OpenBytes("short"), IsDataLoss("only 5 bytes"));
}

TEST_F(SafetensorsTest, UnsupportedTypesAndVersionsAreNamed) {
  EXPECT_THAT(
      OpenBytes(WithLength(R"({"a":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}})") + "xx"),
      IsError(absl::StatusCode::kUnimplemented, "tensor 'a' has dtype 'BF16'", "F32"));
  EXPECT_THAT(OpenBytes(WithLength(R"({"__metadata__":{"ding_worker_version":"2.0"}})")),
              IsFailedPrecondition("has version 2.0"));
  EXPECT_THAT(OpenBytes(WithLength(R"({"__metadata__":{"ding_worker_version":"1.7"}})")), IsOk());
}

TEST_F(SafetensorsTest, EveryTruncationIsRefused) {
  const std::string bytes = WriteSample();
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THAT(OpenBytes(bytes.substr(0, size)), IsDataLoss(path_)) << size << " bytes";
  }
}

TEST_F(SafetensorsTest, WithItsChecksumEveryFlippedBitIsRefused) {
  const std::string bytes = WriteSample();
  const uint32_t crc = Crc32c(bytes);
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
    OverwriteFile(path_, flipped);
    ASSERT_THAT(SafetensorsReader::Open(path_, crc), IsDataLoss("checksum")) << "bit " << bit;
  }
}

TEST_F(SafetensorsTest, AFileThatChecksItselfRefusesEveryFlippedBit) {
  ASSERT_THAT(WriteSafetensors(path_, SaveSample, {}, /*self_checked=*/true), IsOk());
  const std::string bytes = ReadFile(path_).value();
  DING_ASSERT_OK_AND_ASSIGN(const auto reader, SafetensorsReader::OpenSelfChecked(path_));
  EXPECT_EQ(reader->ReadInt("steps").value(), -7);
  EXPECT_EQ(reader->Names().back(), "crc32c");
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
    OverwriteFile(path_, flipped);
    ASSERT_FALSE(SafetensorsReader::OpenSelfChecked(path_).ok()) << "bit " << bit;
  }
  OverwriteFile(path_, WriteSample());
  EXPECT_THAT(SafetensorsReader::OpenSelfChecked(path_),
              IsInvalid(path_, "has no 'crc32c' of 4 bytes"));
  const auto save_twice = [](StateWriter* writer) { return writer->WriteInt("crc32c", 1); };
  EXPECT_THAT(WriteSafetensors(path_, save_twice, {}, /*self_checked=*/true),
              IsError(absl::StatusCode::kAlreadyExists, "'crc32c'"));
}

SafetensorsEntry Entry(const std::string& name, DType dtype, const Shape& shape, int64_t begin,
                       int64_t end) {
  SafetensorsEntry entry;
  entry.name = name;
  entry.dtype = dtype;
  entry.shape = shape;
  entry.begin = begin;
  entry.end = end;
  return entry;
}

TEST(SafetensorsHeaderTest, RoundTripKeepsTheOrder) {
  const SafetensorsHeader header{{Entry("w \"\xc3\xa9\"", DType::kFloat32, {2, 3}, 8, 32),
                                  Entry("a", DType::kInt64, {}, 0, 8)},
                                 {{"who", "test"}}};
  DING_ASSERT_OK_AND_ASSIGN(const std::string bytes, MakeSafetensorsHeader(header));
  EXPECT_EQ(bytes.size() % 8, 0u);
  EXPECT_EQ(static_cast<size_t>(static_cast<unsigned char>(bytes[0])), bytes.size() - 8);
  DING_ASSERT_OK_AND_ASSIGN(const SafetensorsHeader parsed,
                            ParseSafetensorsHeader(bytes.substr(kSafetensorsLengthBytes)));
  EXPECT_THAT(parsed.metadata, ElementsAre(Pair("who", "test")));
  ASSERT_THAT(parsed.entries, SizeIs(2));
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(parsed.entries[i].name, header.entries[i].name);
    EXPECT_EQ(parsed.entries[i].dtype, header.entries[i].dtype);
    EXPECT_EQ(parsed.entries[i].shape, header.entries[i].shape);
    EXPECT_EQ(parsed.entries[i].begin, header.entries[i].begin);
    EXPECT_EQ(parsed.entries[i].end, header.entries[i].end);
  }
  EXPECT_THAT(CheckSafetensorsLayout(parsed.entries, 32), IsOk());
}

TEST(SafetensorsHeaderTest, TextThatIsNotUtf8IsRefused) {
  EXPECT_THAT(MakeSafetensorsHeader({{Entry("\xff", DType::kBool, {}, 0, 1)}, {}}),
              IsInvalid("not UTF-8"));
  EXPECT_THAT(MakeSafetensorsHeader({{}, {{"who", "\xff"}}}), IsInvalid("not UTF-8"));
}

TEST(SafetensorsHeaderTest, InvalidHeadersAreRefused) {
  const auto tensor = [](const std::string& fields) {
    return absl::StrCat("{\"t\":{", fields, "}}");
  };
  EXPECT_THAT(ParseSafetensorsHeader("{"), IsDataLoss("bad header: not JSON at byte"));
  EXPECT_THAT(ParseSafetensorsHeader("[]"), IsDataLoss("unexpected an array"));
  EXPECT_THAT(ParseSafetensorsHeader(tensor(R"("dtype":"U8","shape":[1])")),
              IsDataLoss("tensor 't' has not all of dtype"));
  EXPECT_THAT(ParseSafetensorsHeader(tensor(R"("dtype":"U8","shape":[1],"data_offsets":[1])")),
              IsDataLoss("tensor 't' has 1 data_offsets, not 2"));
  EXPECT_THAT(ParseSafetensorsHeader(tensor(R"("dtype":"U8","shape":[-1])")),
              IsDataLoss("unexpected a negative number"));
  EXPECT_THAT(ParseSafetensorsHeader(tensor(R"("dtype":"F16")")),
              IsError(absl::StatusCode::kUnimplemented, "has dtype 'F16'; known are"));
}

TEST(SafetensorsHeaderTest, TensorsFillTheDataWithoutGapOrOverlap) {
  const auto check = [](const std::vector<SafetensorsEntry>& entries, int64_t data_bytes) {
    return CheckSafetensorsLayout(entries, data_bytes);
  };
  const SafetensorsEntry first = Entry("a", DType::kInt32, {2}, 0, 8);
  EXPECT_THAT(check({first}, 8), IsOk());
  EXPECT_THAT(check({first}, 9), IsDataLoss("the tensors have 8 bytes, the file has 9 for them"));
  EXPECT_THAT(check({Entry("b", DType::kBool, {1}, 9, 10), first}, 10),
              IsDataLoss("'b' begins at byte 9 of the data, expected 8"));
  EXPECT_THAT(check({Entry("b", DType::kBool, {1}, 7, 8), first}, 8), IsDataLoss("expected 8"));
  EXPECT_THAT(check({Entry("a", DType::kInt32, {3}, 0, 8)}, 8),
              IsDataLoss("is said to be at bytes 0 to 8"));
}

}  // namespace
}  // namespace ding

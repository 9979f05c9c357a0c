#include "ding_worker/base/parse_proto.h"

#include <cstddef>
#include <cstdint>
#include <string>

#include "ding_worker/base/fuzz_testing.h"
#include "ding_worker/base/parse_proto_test.pb.h"
#include "ding_worker/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

// A message with every kind of field, of more bytes than are parsed without a scan.
ParsedThing Example() {
  ParsedThing thing;
  thing.set_name("example");
  for (int i = 0; i < 300; ++i) {
    thing.add_names(std::string(static_cast<size_t>(i % 40), 'x'));
    thing.add_things()->mutable_thing()->set_name("inner");
    thing.add_numbers(int64_t{1} << (i % 60));
    thing.add_packed_numbers(-i);
    thing.add_packed_floats(1.5f * static_cast<float>(i));
    (*thing.mutable_map())[i] = "value";
    thing.add_group()->set_number(i);
  }
  return thing;
}

// A message that contains a message, and so on, `depth` levels deep. It is written byte by byte,
// from the inside out, because protobuf recurses once per level and has too little stack for that
// under AddressSanitizer.
std::string Nested(int depth) {
  const int field = ParsedThing::kThingFieldNumber;
  std::string reversed;
  for (int i = 0; i < depth; ++i) {
    std::string head = {static_cast<char>(field << 3 | 2)};
    for (size_t length = reversed.size();; length >>= 7) {
      head.push_back(static_cast<char>((length & 0x7f) | (length >= 0x80 ? 0x80 : 0)));
      if (length < 0x80) break;
    }
    reversed.append(head.rbegin(), head.rend());
  }
  return std::string(reversed.rbegin(), reversed.rend());
}

TEST(ParseProtoTest, ParsesASerializedMessage) {
  const ParsedThing example = Example();
  ParsedThing parsed;
  parsed.add_names("from before");
  ASSERT_THAT(ParseProto(example.SerializeAsString(), &parsed), IsOk());
  EXPECT_EQ(parsed.DebugString(), example.DebugString());
  ASSERT_THAT(ParseProto("", &parsed), IsOk());
  EXPECT_EQ(parsed.ByteSizeLong(), 0u);
}

// The estimate is an upper bound: a parsed message never takes more memory than was allowed.
TEST(ParseProtoTest, AParsedMessageTakesNoMoreMemoryThanAllowed) {
  const std::string bytes = Example().SerializeAsString();
  ParsedThing parsed;
  int64_t least = 1;
  while (!ParseProto(bytes, &parsed, least).ok()) least += 1000;
  ParsedThing fresh;
  ASSERT_THAT(ParseProto(bytes, &fresh, least), IsOk());
  EXPECT_LE(static_cast<int64_t>(fresh.SpaceUsedLong()), least);
  EXPECT_LE(least, 6 * static_cast<int64_t>(fresh.SpaceUsedLong()))
      << "the bound is too far above the real size";
  EXPECT_THAT(ParseProto(bytes, &fresh, least - 1000),
              IsResourceExhausted("it may take more than"));
}

TEST(ParseProtoTest, ManyThingsInFewBytesAreRefused) {
  constexpr size_t kBytes = size_t{1} << 22;
  // The tags of fields of length 0 or with the value 0; the last tag belongs to no known field.
  for (const char tag : {(2 << 3) | 2, (4 << 3) | 2, (5 << 3) | 0, (8 << 3) | 2, (12 << 3) | 2}) {
    std::string bytes(kBytes, '\0');
    for (size_t i = 0; i < bytes.size(); i += 2) bytes[i] = tag;
    ParsedThing parsed;
    EXPECT_THAT(ParseProto(bytes, &parsed, int64_t{1} << 24), IsResourceExhausted())
        << "field " << (tag >> 3);
  }
}

// A packed number of one byte takes eight bytes of memory.
TEST(ParseProtoTest, PackedNumbersAreCounted) {
  ParsedThing thing;
  for (int i = 0; i < 100000; ++i) thing.add_packed_numbers(1);
  const std::string small = thing.SerializeAsString();
  ParsedThing parsed;
  EXPECT_THAT(ParseProto(small, &parsed, 1000000), IsResourceExhausted());
  EXPECT_THAT(ParseProto(small, &parsed, 2000000), IsOk());
  thing.Clear();
  for (int i = 0; i < 100000; ++i) thing.add_packed_floats(1);
  EXPECT_THAT(ParseProto(thing.SerializeAsString(), &parsed, 2000000), IsOk());
}

TEST(ParseProtoTest, DeepMessagesAreRefused) {
  ParsedThing parsed;
  EXPECT_THAT(ParseProto(Nested(kMaxParsedDepth - 1), &parsed), IsOk());
  for (const int depth : {kMaxParsedDepth + 1, 2000, 20000}) {
    EXPECT_THAT(ParseProto(Nested(depth), &parsed), IsInvalid("nested deeper than 64")) << depth;
  }
  // Groups of a known and of an unknown field.
  for (const char tag : {(9 << 3) | 3, (12 << 3) | 3}) {
    EXPECT_THAT(ParseProto(std::string(100000, tag), &parsed), IsInvalid());
  }
}

TEST(ParseProtoTest, InvalidBytesAreRefused) {
  const std::string good = Example().SerializeAsString();
  ParsedThing parsed;
  EXPECT_THAT(ParseProto(good.substr(0, good.size() - 1), &parsed), IsInvalid());
  EXPECT_THAT(ParseProto("\xff", &parsed), IsInvalid());
  EXPECT_THAT(ParseProto(std::string(5000, '\xff'), &parsed), IsInvalid());
}

// Our scan and protobuf itself agree on which bytes are a message.
TEST(ParseProtoFuzz, MutantsAreParsedOrRefused) {
  const std::string good = Example().SerializeAsString();
  int parsed_ones = 0;
  Fuzz(3000, [&good, &parsed_ones](Mutator* mutator) {
    const std::string bytes = mutator->Mutate(good);
    ParsedThing ours, theirs;
    const bool parsed = ParseProto(bytes, &ours).ok();
    if (parsed) {
      EXPECT_TRUE(theirs.ParseFromString(bytes));
      EXPECT_EQ(ours.SerializeAsString().size(), theirs.SerializeAsString().size());
    }
    EXPECT_EQ(parsed, theirs.ParseFromString(bytes));
    parsed_ones += parsed ? 1 : 0;
  });
  if (FuzzRounds(3000) >= 3000) {
    EXPECT_GT(parsed_ones, 100);
  }
}

}  // namespace
}  // namespace ding

#include "ding_worker/base/crc32c.h"

#include <array>
#include <cstring>

namespace ding {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words are read as little endian");

constexpr uint32_t kReversedPolynomial = 0x82F63B78;
using Tables = std::array<std::array<uint32_t, 256>, 8>;

Tables MakeTables() {
  Tables tables;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? kReversedPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (size_t slice = 1; slice < tables.size(); ++slice) {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const uint32_t previous = tables[slice - 1][byte];
      tables[slice][byte] = previous >> 8 ^ tables[0][previous & 0xFF];
    }
  }
  return tables;
}

// For machines without the CRC instruction: processes eight bytes per step with tables ("slicing by
// 8").
uint32_t ExtendByTable(const uint8_t* data, size_t size, uint32_t crc) {
  static const Tables* const tables = new Tables(MakeTables());
  const Tables& t = *tables;
  for (; size >= 8; data += 8, size -= 8) {
    uint32_t low, high;
    std::memcpy(&low, data, 4);
    std::memcpy(&high, data + 4, 4);
    low ^= crc;
    crc = t[7][low & 0xFF] ^ t[6][low >> 8 & 0xFF] ^ t[5][low >> 16 & 0xFF] ^ t[4][low >> 24] ^
          t[3][high & 0xFF] ^ t[2][high >> 8 & 0xFF] ^ t[1][high >> 16 & 0xFF] ^ t[0][high >> 24];
  }
  for (; size > 0; ++data, --size) crc = crc >> 8 ^ t[0][(crc ^ *data) & 0xFF];
  return crc;
}

#if defined(__x86_64__)
// The instruction takes three cycles, but the processor can begin one in each cycle. So three
// consecutive blocks are processed at the same time, and their checksums are combined.
constexpr size_t kLargeBlock = 1024;
constexpr size_t kSmallBlock = 128;  // for messages of a few kilobytes

// For each position and value of a byte in a checksum: its contribution to the checksum after a
// block of zeros was appended.
using ShiftTables = std::array<std::array<uint32_t, 256>, 4>;

template <size_t kBlockBytes>
ShiftTables MakeShiftTables() {
  const std::array<uint8_t, kBlockBytes> zeros = {};
  ShiftTables tables = {};
  for (uint32_t position = 0; position < 4; ++position) {
    std::array<uint32_t, 256>& table = tables[position];
    for (uint32_t byte = 1; byte < 256; ++byte) {
      const uint32_t others = byte & (byte - 1);  // without its lowest bit
      table[byte] = others == 0 ? ExtendByTable(zeros.data(), zeros.size(), byte << 8 * position)
                                : table[others] ^ table[byte ^ others];
    }
  }
  return tables;
}

// The checksum `crc` after a block of zeros was appended to the data.
template <size_t kBlockBytes>
uint32_t AfterBlockOfZeros(uint32_t crc) {
  static const ShiftTables* const tables = new ShiftTables(MakeShiftTables<kBlockBytes>());
  const ShiftTables& t = *tables;
  return t[0][crc & 0xFF] ^ t[1][crc >> 8 & 0xFF] ^ t[2][crc >> 16 & 0xFF] ^ t[3][crc >> 24];
}

uint64_t WordAt(const uint8_t* data) {
  uint64_t word;
  std::memcpy(&word, data, 8);
  return word;
}

// Processes blocks while there are three of them, and moves *data and *size behind them.
template <size_t kBlockBytes>
__attribute__((target("sse4.2"))) uint32_t ExtendByBlocks(const uint8_t** data, size_t* size,
                                                          uint32_t crc) {
  for (; *size >= 3 * kBlockBytes; *data += 3 * kBlockBytes, *size -= 3 * kBlockBytes) {
    uint64_t first = crc, second = 0, third = 0;
    for (const uint8_t* word = *data; word < *data + kBlockBytes; word += 8) {
      first = __builtin_ia32_crc32di(first, WordAt(word));
      second = __builtin_ia32_crc32di(second, WordAt(word + kBlockBytes));
      third = __builtin_ia32_crc32di(third, WordAt(word + 2 * kBlockBytes));
    }
    crc = AfterBlockOfZeros<kBlockBytes>(static_cast<uint32_t>(first)) ^
          static_cast<uint32_t>(second);
    crc = AfterBlockOfZeros<kBlockBytes>(crc) ^ static_cast<uint32_t>(third);
  }
  return crc;
}

__attribute__((target("sse4.2"))) uint32_t ExtendByInstruction(const uint8_t* data, size_t size,
                                                               uint32_t crc) {
  crc = ExtendByBlocks<kLargeBlock>(&data, &size, crc);
  crc = ExtendByBlocks<kSmallBlock>(&data, &size, crc);
  uint64_t wide = crc;
  for (; size >= 8; data += 8, size -= 8) {
    wide = __builtin_ia32_crc32di(wide, WordAt(data));
  }
  crc = static_cast<uint32_t>(wide);
  for (; size > 0; ++data, --size) crc = __builtin_ia32_crc32qi(crc, *data);
  return crc;
}
#endif

}  // namespace

uint32_t Crc32c(absl::string_view bytes, uint32_t crc) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2");
  if (has_instruction) {
    return ~ExtendByInstruction(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(), ~crc);
  }
#endif
  return internal_base::Crc32cByTable(bytes, crc);
}

uint32_t internal_base::Crc32cByTable(absl::string_view bytes, uint32_t crc) {
  return ~ExtendByTable(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(), ~crc);
}

}  // namespace ding

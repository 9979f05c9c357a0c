// Finds the blocks, from '{' to '}', that a place of a text in protobuf text format lies in. It reads texts that the
// parser refuses, to say what is wrong with them.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_WORKER_CONFIG_TEXT_BLOCKS_H_
#define DING_WORKER_WORKER_CONFIG_TEXT_BLOCKS_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "google/protobuf/descriptor.h"

namespace ding {

struct TextBlock {
  // The field that the block is the value of, or "[type.googleapis.com/ding.DqnConfig]".
  std::string name;
  int line = 0, column = 0;  // of its '{'; they count from 0
  // The strings that are set in it, by field, up to where the reading stopped.
  std::map<std::string, std::string> strings;
};

struct TextBlocks {
  // The blocks that are open, outermost first. The first one is the whole text, without a name.
  std::vector<TextBlock> open;
  // The first block whose end stands further left than its beginning: most likely its '}' is missing, and it has taken
  // the one of the block around it.
  std::optional<TextBlock> suspect;
};

// Reads up to the place, which counts from 0, or to the end of the text.
TextBlocks ReadBlocks(const std::string& text, int line, int column);
TextBlocks ReadBlocks(const std::string& text);

// The message that the innermost open block is, if the whole text is a `root`; null if that cannot be said.
const google::protobuf::Descriptor* MessageOfBlock(const TextBlocks& blocks,
                                                   const google::protobuf::Descriptor& root);

// The message that the innermost open block, a google.protobuf.Any, must name by the type that is set beside it; null
// if that cannot be said.
const google::protobuf::Descriptor* ParamsMessageOfBlock(const TextBlocks& blocks,
                                                         const google::protobuf::Descriptor& root);

}  // namespace ding

#endif  // DING_WORKER_WORKER_CONFIG_TEXT_BLOCKS_H_

// SPDX-License-Identifier: Apache-2.0
// A recording made in memory, damaged by the test, and read again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "recording/reader.h"

namespace forestall::test {

// A chunk to write: entries, each a second after the one before.
struct PlannedChunk {
  std::vector<std::string> entries;
  bool key = false;
  std::uint32_t lost = 0;
};

struct MadeRecording {
  std::string bytes;
  std::vector<recording::ChunkPlace> places;
  std::size_t end_of_chunks = 0;  // start of index and trailer
};

// `ended`: with index and trailer.
[[nodiscard]] MadeRecording make_recording(const std::vector<PlannedChunk>& chunks, bool ended);

// `chunks` of `entries` each; the contents are random, from `seed`, and compressible.
[[nodiscard]] std::vector<PlannedChunk> random_chunks(std::size_t chunks, std::size_t entries,
                                                      std::uint32_t seed);

// All results of a reader of `bytes`.
struct ReadBack {
  std::vector<std::vector<std::string>> chunks;  // entries of each
  std::vector<bool> after_loss;
  std::vector<recording::DamagedRange> damages;
  std::optional<recording::DamagedRange> cut;
  bool complete = false;
  std::uint64_t foreign = 0;

  [[nodiscard]] std::size_t entries() const;
};
[[nodiscard]] Result<ReadBack> read_back(std::string_view bytes);

// An unnamed file with these bytes.
[[nodiscard]] UniqueFd file_of(std::string_view bytes);

}  // namespace forestall::test

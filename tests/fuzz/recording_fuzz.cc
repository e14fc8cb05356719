// SPDX-License-Identifier: Apache-2.0
// For any file, the reader ends, stays within the file, and reports every byte once: as a chunk, as
// damage, or as a truncation. The entries of any chunk are decoded or rejected.
//
// The first byte of the input chooses: the rest is a file; what follows a header; or the payload of
// a chunk with valid sums, which random bytes would not reach.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "messages/recording_entries.h"
#include "recording/reader.h"
#include "require.h"

namespace {

using namespace forestall;
using namespace forestall::recording;
using test::require;

// One file for all inputs: making one is slower than reading it.
int file_with(std::string_view bytes) {
  static const int fd = memfd_create("recording", MFD_CLOEXEC);
  if (ftruncate(fd, 0) != 0) std::abort();
  if (pwrite(fd, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) std::abort();
  return dup(fd);
}

void decode_all(std::string_view raw) {
  static messages::EntryDecoder decoder;
  decoder.forget();
  while (const auto bytes = take_entry(raw)) {
    const auto entry = decoder.decode(*bytes);
    if (!entry) continue;
    const auto* evaluation = std::get_if<messages::EvaluationEntry>(&*entry);
    if (evaluation != nullptr) (void)messages::decode_decision(*evaluation);
  }
}

void read_all(std::string_view file) {
  auto reader = Reader::open(UniqueFd(file_with(file)), "input");
  if (!reader) return;
  (void)messages::decode_facts(reader->header().facts);
  std::uint64_t reported = 0;
  std::uint64_t last = 0;
  for (;;) {
    const auto chunk = reader->next();
    require(chunk.ok());
    if (!*chunk) break;
    require((*chunk)->place.offset >= last);
    last = (*chunk)->place.offset + 1;
    require((*chunk)->raw.size() == (*chunk)->header.raw_size);
    reported += kChunkHeaderSize + (*chunk)->header.stored_size;
    decode_all((*chunk)->raw);
  }
  for (const recording::DamagedRange& damage : reader->damages()) reported += damage.bytes;
  if (reader->cut()) reported += reader->cut()->bytes;
  require(reported <= file.size());
  const auto places = reader->places();
  require(places.ok());
  for (const ChunkPlace& place : *places) require(place.offset < file.size());
  if (!places->empty()) require(reader->seek(places->back().first_ns).ok());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 3 == 0) {
    read_all(rest);
  } else if (data[0] % 3 == 1) {
    read_all(encode(FileHeader{}) + std::string(rest));
  } else {
    ChunkHeader header;
    header.flags = kChunkPlain | kChunkKey;
    header.raw_size = header.stored_size = static_cast<std::uint32_t>(rest.size());
    const auto bytes = encode(header, rest);
    read_all(encode(FileHeader{}) + std::string(bytes.data(), bytes.size()) + std::string(rest));
  }
  return 0;
}

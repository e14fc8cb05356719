// SPDX-License-Identifier: Apache-2.0
#include "recording/recording_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <random>

#include "recording/chunk.h"

namespace forestall::test {

using namespace recording;

MadeRecording make_recording(const std::vector<PlannedChunk>& chunks, bool ended) {
  MadeRecording made;
  made.bytes = encode(FileHeader{kMajor, kMinor, "the facts"});
  std::int64_t second = 0;
  for (const PlannedChunk& planned : chunks) {
    ChunkBuilder chunk;
    chunk.note_loss(planned.lost, planned.lost * 10);
    if (planned.key) chunk.begin_with_key();
    for (const std::string& entry : planned.entries) {
      chunk.append(entry, from_ns(++second * 1'000'000'000));
    }
    const auto sealed = chunk.seal(static_cast<std::uint32_t>(made.places.size()));
    made.places.push_back({made.bytes.size(), sealed.header.first_ns, sealed.header.last_ns,
                           sealed.header.count, sealed.header.flags});
    made.bytes += sealed.bytes;
  }
  made.end_of_chunks = made.bytes.size();
  if (!ended) return made;
  made.bytes += seal_index(made.places, static_cast<std::uint32_t>(made.places.size()));
  const auto trailer = encode_trailer(made.end_of_chunks);
  made.bytes.append(trailer.data(), trailer.size());
  return made;
}

std::vector<PlannedChunk> random_chunks(std::size_t chunks, std::size_t entries,
                                        std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<PlannedChunk> planned(chunks);
  for (std::size_t i = 0; i < chunks; ++i) {
    planned[i].key = i % 4 == 0;
    for (std::size_t each = 0; each < entries; ++each) {
      // Digits only, so that it can be compressed.
      std::string entry(random() % 200, '\0');
      for (char& c : entry) c = static_cast<char>('0' + random() % 10);
      planned[i].entries.push_back(std::move(entry));
    }
  }
  return planned;
}

std::size_t ReadBack::entries() const {
  std::size_t count = 0;
  for (const auto& chunk : chunks) count += chunk.size();
  return count;
}

UniqueFd file_of(std::string_view bytes) {
  UniqueFd fd(memfd_create("recording", MFD_CLOEXEC));
  while (!bytes.empty()) {
    const ssize_t size = write(fd.get(), bytes.data(), bytes.size());
    if (size <= 0) break;
    bytes.remove_prefix(static_cast<std::size_t>(size));
  }
  return fd;
}

Result<ReadBack> read_back(std::string_view bytes) {
  Reader reader = TRY(Reader::open(file_of(bytes), "test"));
  ReadBack back;
  while (auto chunk = TRY(reader.next())) {
    std::vector<std::string> entries;
    std::string_view raw = chunk->raw;
    while (const auto entry = take_entry(raw)) entries.emplace_back(*entry);
    if (!raw.empty()) return error("the payload has more than entries");
    back.chunks.push_back(std::move(entries));
    back.after_loss.push_back(chunk->after_loss);
  }
  back.damages = reader.damages();
  back.cut = reader.cut();
  back.complete = reader.is_complete();
  back.foreign = reader.foreign_chunks();
  return back;
}

}  // namespace forestall::test

// SPDX-License-Identifier: Apache-2.0
#include "kernel/residency.h"

#include <elf.h>
#include <link.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace forestall::kernel {
namespace {

// An evaluation of a thousand cgroups takes about 300 KiB while it runs.
constexpr std::size_t kHeapReserve = 512 * 1024;

struct Range {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};

// The whole pages inside the range.
Range shrunk_to_pages(Range range) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  return {(range.begin + page - 1) & ~(page - 1), range.end & ~(page - 1)};
}

Range grown_to_pages(Range range) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  return {range.begin & ~(page - 1), (range.end + page - 1) & ~(page - 1)};
}

void advise(Range pages, int advice) {
  if (pages.begin >= pages.end) return;
  madvise(reinterpret_cast<void*>(pages.begin), pages.end - pages.begin, advice);
}

Range segment_of(const dl_phdr_info& object, const ElfW(Phdr) & segment) {
  const std::uintptr_t begin = object.dlpi_addr + segment.p_vaddr;
  return {begin, begin + segment.p_memsz};
}

// Whether the loader patched the object's code: a dropped page would be read again unpatched.
bool has_text_relocations(const dl_phdr_info& object) {
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object.dlpi_phdr[i];
    if (segment.p_type != PT_DYNAMIC) continue;
    const auto* entry = reinterpret_cast<const ElfW(Dyn)*>(object.dlpi_addr + segment.p_vaddr);
    for (; entry->d_tag != DT_NULL; ++entry) {
      if (entry->d_tag == DT_TEXTREL) return true;
      if (entry->d_tag == DT_FLAGS && (entry->d_un.d_val & DF_TEXTREL) != 0) return true;
    }
  }
  return false;
}

// A segment that was never writable equals the file. (Sections that become read-only after
// relocation are in writable segments.)
int drop_unchanged(dl_phdr_info* object, std::size_t, void*) {
  if (has_text_relocations(*object)) return 0;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) != 0) continue;
    advise(shrunk_to_pages(segment_of(*object, segment)), MADV_DONTNEED);
  }
  return 0;
}

// The constants without the tables that only exceptions need. GNU ld places these tables last; with
// another layout all constants are kept.
Range without_exception_tables(const dl_phdr_info& object, Range constants) {
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object.dlpi_phdr[i];
    if (segment.p_type != PT_GNU_EH_FRAME) continue;
    const std::uintptr_t tables = segment_of(object, segment).begin;
    if (tables > constants.begin && tables < constants.end) constants.end = tables;
  }
  return constants;
}

// The first object that dl_iterate_phdr() reports is the executable.
int keep_executable(dl_phdr_info* object, std::size_t, void*) {
  const auto mark = reinterpret_cast<std::uintptr_t>(&forestall_resident_end);
  bool behind_code = false;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD) continue;
    Range kept = segment_of(*object, segment);
    if ((segment.p_flags & PF_X) != 0) {
      if (mark > kept.begin && mark < kept.end) kept.end = mark;
      behind_code = true;
    } else if ((segment.p_flags & PF_W) == 0) {
      if (!behind_code) continue;  // the loader's: symbols and relocations
      kept = without_exception_tables(*object, kept);
    }
    advise(grown_to_pages(kept), MADV_POPULATE_READ);
  }
  return 1;
}

}  // namespace

void give_back_start_up_memory() {
  malloc_trim(0);
  dl_iterate_phdr(drop_unchanged, nullptr);
}

void keep_own_code_resident() {
  dl_iterate_phdr(keep_executable, nullptr);
}

void keep_heap_reserve() {
  // From here on freed memory at the top of the heap stays, and large blocks come from the heap too
  // instead of being mapped and unmapped each time.
  mallopt(M_TRIM_THRESHOLD, 2 * static_cast<int>(kHeapReserve));
  mallopt(M_MMAP_THRESHOLD, static_cast<int>(kHeapReserve));
  void* reserve = std::malloc(kHeapReserve - 4096);
  if (reserve == nullptr) return;
  std::memset(reserve, 0, kHeapReserve - 4096);
  // Otherwise the compiler removes the allocation and the free.
  asm volatile("" : : "r"(reserve) : "memory");
  std::free(reserve);
}

}  // namespace forestall::kernel

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

// A look at a thousand cgroups takes about 300 KiB for as long as it lasts.
constexpr std::size_t kHeapReserve = 512 * 1024;

struct Range {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};

// The whole pages inside, or those it touches.
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
  // The interface takes addresses as pointers.
  madvise(reinterpret_cast<void*>(pages.begin), pages.end - pages.begin, advice);
}

Range segment_of(const dl_phdr_info& object, const ElfW(Phdr) & segment) {
  const std::uintptr_t begin = object.dlpi_addr + segment.p_vaddr;
  return {begin, begin + segment.p_memsz};
}

// Whether the loader patched the object's code: dropped pages would come back without the patches.
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

// Segments that were never writable are the file, unchanged. (What is made read-only after
// relocation lies in segments that were writable.)
int drop_unchanged(dl_phdr_info* object, std::size_t, void*) {
  if (has_text_relocations(*object)) return 0;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) != 0) continue;
    advise(shrunk_to_pages(segment_of(*object, segment)), MADV_DONTNEED);
  }
  return 0;
}

// Of constants, what lies before the tables that only exceptions need. Those follow, with every
// layout of GNU ld; where they do not, all is kept.
Range without_exception_tables(const dl_phdr_info& object, Range constants) {
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object.dlpi_phdr[i];
    if (segment.p_type != PT_GNU_EH_FRAME) continue;
    const std::uintptr_t tables = segment_of(object, segment).begin;
    if (tables > constants.begin && tables < constants.end) constants.end = tables;
  }
  return constants;
}

// The first object told of is the executable.
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
  // Freed memory at the top of the heap stays from here on, and large pieces come from there, too:
  // those would be mapped and unmapped each time else.
  mallopt(M_TRIM_THRESHOLD, 2 * static_cast<int>(kHeapReserve));
  mallopt(M_MMAP_THRESHOLD, static_cast<int>(kHeapReserve));
  void* reserve = std::malloc(kHeapReserve - 4096);
  if (reserve == nullptr) return;
  std::memset(reserve, 0, kHeapReserve - 4096);
  // Else the compiler leaves out both.
  asm volatile("" : : "r"(reserve) : "memory");
  std::free(reserve);
}

}  // namespace forestall::kernel

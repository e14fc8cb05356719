// SPDX-License-Identifier: Apache-2.0
#include "kernel/guard_object.h"

#include <bpf/libbpf.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "bpf/abi/guard.h"
#include "kernel/bpf_host.h"
#include "kernel/bpf_log.h"

namespace forestall::kernel {

LoadedGuardObject load_guard_object(const RelocationTypes& types, const GuardSuccession& succession,
                                    bool charge_hook) {
  const BpfLog log;
  LIBBPF_OPTS(bpf_object_open_opts, options, .btf_custom_path = types.path());
  GuardSkeleton skeleton(forestall_guard__open_opts(&options));
  if (!skeleton) return {nullptr, "open the BPF object of the guard", errno};
  skeleton->rodata->page_shift = page_shift();
  skeleton->rodata->fill_bytes_per_us = fastest_fill_bytes_per_us();
  skeleton->rodata->agent_tgid = ::getpid();
  skeleton->rodata->guard_number = succession.number();
  if (succession.turn() >= 0 &&
      bpf_map__reuse_fd(skeleton->maps.guard_turn, succession.turn()) != 0) {
    return {nullptr, "take over the turn of the former guard", errno};
  }
  bpf_program__set_autoload(skeleton->progs.guard_charge, charge_hook);
  const std::size_t cpus = possible_numbers("/sys/devices/system/cpu/possible").size();
  const auto clocks = std::clamp<std::size_t>(cpus, 1, ABI_GUARD_CPUS);
  bpf_map__set_max_entries(skeleton->maps.guard_clocks, static_cast<__u32>(clocks));
  const int failure = forestall_guard__load(skeleton.get());
  if (failure == 0) return {std::move(skeleton), {}, 0};
  return {nullptr, "load the BPF object of the guard: " + summarize_bpf_log(log.text()), -failure};
}

}  // namespace forestall::kernel

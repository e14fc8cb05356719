// SPDX-License-Identifier: Apache-2.0
#include "kernel/bpf_run.h"

#include <unistd.h>

#include "base/unique_fd.h"
#include "kernel/bpf_log.h"

namespace forestall::kernel {

Result<int> run_program(const bpf_program* program, std::span<std::byte> argument) {
  LIBBPF_OPTS(bpf_test_run_opts, options);
  if (!argument.empty()) {
    options.ctx_in = argument.data();
    options.ctx_size_in = static_cast<__u32>(argument.size());
  }
  if (bpf_prog_test_run_opts(bpf_program__fd(program), &options) != 0) {
    return errno_error("BPF_PROG_TEST_RUN", bpf_program__name(program));
  }
  return static_cast<int>(options.retval);
}

Result<BpfLink> attach_iterator(const bpf_program* program, bpf_iter_link_info* where) {
  const BpfLog quiet;
  LIBBPF_OPTS(bpf_iter_attach_opts, options);
  if (where != nullptr) {
    options.link_info = where;
    options.link_info_len = sizeof(*where);
  }
  BpfLink link(bpf_program__attach_iter(program, &options));
  if (!link) return errno_error("attach BPF iterator", bpf_program__name(program));
  return link;
}

Result<void> run_iterator(const bpf_program* program, bpf_iter_link_info& where) {
  const BpfLink link = TRY(attach_iterator(program, &where));
  const UniqueFd walk(bpf_iter_create(bpf_link__fd(link.get())));
  if (!walk) return errno_error("bpf_iter_create", bpf_program__name(program));
  char nothing = 0;
  if (::read(walk.get(), &nothing, 1) < 0) return errno_error("read", bpf_program__name(program));
  return {};
}

Result<void> run_cgroup_iterator(const bpf_program* program, int cgroup_fd) {
  bpf_iter_link_info where{};
  where.cgroup.order = BPF_CGROUP_ITER_SELF_ONLY;
  where.cgroup.cgroup_fd = static_cast<__u32>(cgroup_fd);
  return run_iterator(program, where);
}

Result<std::size_t> possible_cpus() {
  const int cpus = libbpf_num_possible_cpus();
  if (cpus < 0) return Error{-cpus, "read /sys/devices/system/cpu/possible"};
  return static_cast<std::size_t>(cpus);
}

void add_words(std::span<const std::uint64_t> cpus, std::span<std::uint64_t> sum) {
  for (std::size_t i = 0; i < cpus.size(); ++i) sum[i % sum.size()] += cpus[i];
}

}  // namespace forestall::kernel

#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace forebay {

/// The job that a process belongs to, by the text of its /proc/PID/cgroup (cgroups(7), versions 1
/// and 2): the number of its Slurm job, else the uid of its Kubernetes pod, as `squeue` and
/// `kubectl get pod -o yaml` show them; nothing for a process of neither. A Slurm job inside a pod
/// is the Slurm job; of nested ones the innermost counts. Pure.
///
/// Slurm: a folder `job_123` below one whose name has "slurm" in it (slurm, slurm_NODE,
/// slurmstepd.scope, NODE_slurmstepd.scope). Kubernetes: below kubepods a folder `podUID`
/// (cgroupfs driver) or `…-podUID.slice` with '_' for '-' (systemd driver); what the runtime
/// (containerd, CRI-O, docker) names below it does not matter. A static pod's uid is a hash of 32
/// digits.
std::optional<std::string> JobOfCgroups(std::string_view cgroup_text);

}  // namespace forebay

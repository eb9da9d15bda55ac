; ModuleID = 'kernels.cu'
source_filename = "kernels.cu"
target datalayout = "e-m:w-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-w64-windows-gnu"

%struct.dim3 = type { i32, i32, i32 }

$_Z20__device_stub__sizedILy128EEvPf = comdat any

@counter = internal global i32 undef, align 4
@0 = private unnamed_addr constant [6 x i8] c"plain\00", align 1
@1 = private unnamed_addr constant [28 x i8] c"_ZN12_GLOBAL__N_16hiddenEPf\00", align 1
@2 = private unnamed_addr constant [28 x i8] c"_ZL5scaleIfLi3EEvPKT_PS0_xy\00", align 1
@3 = private unnamed_addr constant [28 x i8] c"_ZL5scaleIdLi4EEvPKT_PS0_xy\00", align 1
@4 = private unnamed_addr constant [31 x i8] c"_ZL5applyIXadL_ZL3onePfEEEvS0_\00", align 1
@5 = private unnamed_addr constant [35 x i8] c"_ZL5applyIXadL_ZL3twoIfEvPT_EEEvPf\00", align 1
@6 = private unnamed_addr constant [20 x i8] c"_Z5sizedILy128EEvPf\00", align 1
@7 = private unnamed_addr constant [8 x i8] c"counter\00", align 1
@8 = private constant [20 x i8] c"llpatch device code\0A", section ".nv_fatbin", align 8
@__cuda_fatbin_wrapper = internal constant { i32, i32, ptr, ptr } { i32 1180844977, i32 1, ptr @8, ptr null }, section ".nvFatBinSegment", align 8
@__cuda_gpubin_handle = internal unnamed_addr global ptr null, align 8
@llvm.global_ctors = appending global [1 x { i32, ptr, ptr }] [{ i32, ptr, ptr } { i32 65535, ptr @__cuda_module_ctor, ptr null }]

; Function Attrs: mustprogress norecurse uwtable
define dso_local void @__device_stub__plain(ptr noundef %0) #0 {
  %2 = alloca ptr, align 8
  %3 = alloca %struct.dim3, align 8
  %4 = alloca %struct.dim3, align 8
  %5 = alloca i64, align 8
  %6 = alloca ptr, align 8
  store ptr %0, ptr %2, align 8, !tbaa !6
  %7 = alloca ptr, align 16
  store ptr %2, ptr %7, align 16
  %8 = call i32 @__cudaPopCallConfiguration(ptr nonnull %3, ptr nonnull %4, ptr nonnull %5, ptr nonnull %6)
  %9 = load i64, ptr %5, align 8
  %10 = load ptr, ptr %6, align 8
  %11 = call noundef i32 @cudaLaunchKernel(ptr noundef nonnull @__device_stub__plain, ptr noundef nonnull %3, ptr noundef nonnull %4, ptr noundef nonnull %7, i64 noundef %9, ptr noundef %10)
  ret void
}

declare dso_local i32 @__cudaPopCallConfiguration(ptr, ptr, ptr, ptr) local_unnamed_addr

declare dso_local i32 @cudaLaunchKernel(ptr, ptr, ptr, ptr, i64, ptr) local_unnamed_addr

; Function Attrs: mustprogress uwtable
define dso_local void @_Z5startPfPd(ptr noundef %0, ptr noundef %1) local_unnamed_addr #1 {
  %3 = alloca ptr, align 8
  %4 = alloca %struct.dim3, align 8
  %5 = alloca %struct.dim3, align 8
  %6 = alloca i64, align 8
  %7 = alloca ptr, align 8
  %8 = alloca ptr, align 16
  %9 = alloca ptr, align 8
  %10 = alloca %struct.dim3, align 8
  %11 = alloca %struct.dim3, align 8
  %12 = alloca i64, align 8
  %13 = alloca ptr, align 8
  %14 = alloca ptr, align 16
  %15 = alloca ptr, align 8
  %16 = alloca %struct.dim3, align 8
  %17 = alloca %struct.dim3, align 8
  %18 = alloca i64, align 8
  %19 = alloca ptr, align 8
  %20 = alloca ptr, align 16
  %21 = alloca ptr, align 8
  %22 = alloca %struct.dim3, align 8
  %23 = alloca %struct.dim3, align 8
  %24 = alloca i64, align 8
  %25 = alloca ptr, align 8
  %26 = alloca ptr, align 16
  %27 = alloca ptr, align 8
  %28 = alloca %struct.dim3, align 8
  %29 = alloca %struct.dim3, align 8
  %30 = alloca i64, align 8
  %31 = alloca ptr, align 8
  %32 = alloca ptr, align 16
  %33 = alloca ptr, align 8
  %34 = alloca ptr, align 8
  %35 = alloca i64, align 8
  %36 = alloca i64, align 8
  %37 = alloca %struct.dim3, align 8
  %38 = alloca %struct.dim3, align 8
  %39 = alloca i64, align 8
  %40 = alloca ptr, align 8
  %41 = alloca [4 x ptr], align 16
  %42 = alloca ptr, align 8
  %43 = alloca ptr, align 8
  %44 = alloca i64, align 8
  %45 = alloca i64, align 8
  %46 = alloca %struct.dim3, align 8
  %47 = alloca %struct.dim3, align 8
  %48 = alloca i64, align 8
  %49 = alloca ptr, align 8
  %50 = alloca [4 x ptr], align 16
  %51 = alloca %struct.dim3, align 4
  %52 = alloca %struct.dim3, align 4
  %53 = alloca %struct.dim3, align 4
  %54 = alloca %struct.dim3, align 4
  %55 = alloca %struct.dim3, align 4
  %56 = alloca %struct.dim3, align 4
  %57 = alloca %struct.dim3, align 4
  %58 = alloca %struct.dim3, align 4
  %59 = alloca %struct.dim3, align 4
  %60 = alloca %struct.dim3, align 4
  %61 = alloca %struct.dim3, align 4
  %62 = alloca %struct.dim3, align 4
  %63 = alloca %struct.dim3, align 4
  %64 = alloca %struct.dim3, align 4
  %65 = alloca i32, align 4
  store i32 1, ptr %51, align 4, !tbaa !10
  %66 = getelementptr inbounds i8, ptr %51, i64 4
  store i32 1, ptr %66, align 4, !tbaa !13
  %67 = getelementptr inbounds i8, ptr %51, i64 8
  store i32 1, ptr %67, align 4, !tbaa !14
  store i32 1, ptr %52, align 4, !tbaa !10
  %68 = getelementptr inbounds i8, ptr %52, i64 4
  store i32 1, ptr %68, align 4, !tbaa !13
  %69 = getelementptr inbounds i8, ptr %52, i64 8
  store i32 1, ptr %69, align 4, !tbaa !14
  %70 = call i32 @__cudaPushCallConfiguration(ptr noundef nonnull %51, ptr noundef nonnull %52, i64 noundef 0, ptr noundef null)
  %71 = icmp eq i32 %70, 0
  br i1 %71, label %72, label %80

72:                                               ; preds = %2
  call void @llvm.lifetime.start.p0(i64 8, ptr nonnull %42)
  call void @llvm.lifetime.start.p0(i64 8, ptr nonnull %43)
  call void @llvm.lifetime.start.p0(i64 8, ptr nonnull %44)
  call void @llvm.lifetime.start.p0(i64 8, ptr nonnull %45)
  call void @llvm.lifetime.start.p0(i64 12, ptr nonnull %46)
  call void @llvm.lifetime.start.p0(i64 12, ptr nonnull %47)
  call void @llvm.lifetime.start.p0(i64 8, ptr nonnull %48)
  call void @llvm.lifetime.start.p0(i64 8, ptr nonnull %49)
  call void @llvm.lifetime.start.p0(i64 32, ptr nonnull %50)
  store ptr %0, ptr %42, align 8, !tbaa !6
  store ptr %0, ptr %43, align 8, !tbaa !6
  store i64 5, ptr %44, align 8, !tbaa !15
  store i64 6, ptr %45, align 8, !tbaa !15
  store ptr %42, ptr %50, align 16
  %73 = getelementptr inbounds i8, ptr %50, i64 8
  store ptr %43, ptr %73, align 8
  %74 = getelementptr inbounds i8, ptr %50, i64 16
  store ptr %44, ptr %74, align 16
  %75 = getelementptr inbounds i8, ptr %50, i64 24
  store ptr %45, ptr %75, align 8
  %76 = call i32 @__cudaPopCallConfiguration(ptr nonnull %46, ptr nonnull %47, ptr nonnull %48, ptr nonnull %49)
  %77 = load i64, ptr %48, align 8
  %78 = load ptr, ptr %49, align 8
  %79 = call noundef i32 @cudaLaunchKernel(ptr noundef nonnull @_ZL20__device_stub__scaleIfLi3EEvPKT_PS0_xy, ptr noundef nonnull %46, ptr noundef nonnull %47, ptr noundef nonnull %50, i64 noundef %77, ptr noundef %78)
  call void @llvm.lifetime.end.p0(i64 8, ptr nonnull %42)
  call void @llvm.lifetime.end.p0(i64 8, ptr nonnull %43)
  call void @llvm.lifetime.end.p0(i64 8, ptr nonnull %44)
  call void @llvm.lifetime.end.p0(i64 8, ptr nonnull %45)
  call void @llvm.lifetime.end.p0(i64 12, ptr nonnull %46)
  call void @llvm.lifetime.end.p0(i64 12, ptr nonnull %47)
  call void @llvm.lifetime.end.p0(i64 8, ptr nonnull %48)
  call void @llvm.lifetime.end.p0(i64 8, ptr nonnull %49)
  call void @llvm.lifetime.end.p0(i64 32, ptr nonnull %50)
  br label %80

80:                                               ; preds = %72, %2
  store i32 1, ptr %53, align 4, !tbaa !10
  %81 = getelementptr inbounds i8, ptr %53, i64 4
  store i32 1, ptr %81, align 4, !tbaa !13
  %82 = getelementptr inbounds i8, ptr %53, i64 8
  store i32 1, ptr %82, align 4, !tbaa !14
  store i32 1, ptr %54, align 4, !tbaa !10
  %83 = getelementptr inbounds i8, ptr %54, i64 4
  store i32 1, ptr %83, align 4, !tbaa !13
  %84 = getelementptr inbounds i8, ptr %54, i64 8
  store i32 1, ptr %84, align 4, !tbaa !14
  %85 = call i32 @__cudaPushCallConfiguration(ptr noundef nonnull %53, ptr noundef nonnull %54, i64 noundef 0, ptr noundef null)
  %86 = icmp eq i32 %85, 0
  br i1 %86, label %87, label %95

87:                                               ; preds = %80
  call void @llvm.lifetime.start.p0(i64 8, ptr nonnull %33)
  call void @llvm.lifetime.start.p0(i64 8, ptr nonnull %34)
  call void @llvm.lifetime.start.p0(i64 8, ptr nonnull %35)
  call void @llvm.lifetime.start.p0(i64 8, ptr nonnull %36)
  call void @llvm.lifetime.start.p0(i64 12, ptr nonnull %37)
  call void @llvm.lifetime.start.p0(i64 12, ptr nonnull %38)
  call void @llvm.lifetime.start.p0(i64 8, ptr nonnull %39)
  call void @llvm.lifetime.start.p0(i64 8, ptr nonnull %40)
  call void @llvm.lifetime.start.p0(i64 32, ptr nonnull %41)
  store ptr %1, ptr %33, align 8, !tbaa !6
  store ptr %1, ptr %34, align 8, !tbaa !6
  store i64 5, ptr %35, align 8, !tbaa !15
  store i64 6, ptr %36, align 8, !tbaa !15
  store ptr %33, ptr %41, align 16
  %88 = getelementptr inbounds i8, ptr %41, i64 8
  store ptr %34, ptr %88, align 8
  %89 = getelementptr inbounds i8, ptr %41, i64 16
  store ptr %35, ptr %89, align 16
  %90 = getelementptr inbounds i8, ptr %41, i64 24
  store ptr %36, ptr %90, align 8
  %91 = call i32 @__cudaPopCallConfiguration(ptr nonnull %37, ptr nonnull %38, ptr nonnull %39, ptr nonnull %40)
  %92 = load i64, ptr %39, align 8
  %93 = load ptr, ptr %40, align 8
  %94 = call noundef i32 @cudaLaunchKernel(ptr noundef nonnull @_ZL20__device_stub__scaleIdLi4EEvPKT_PS0_xy, ptr noundef nonnull %37, ptr noundef nonnull %38, ptr noundef nonnull %41, i64 noundef %92, ptr noundef %93)
  call void @llvm.lifetime.end.p0(i64 8, ptr nonnull %33)
  call void @llvm.lifetime.end.p0(i64 8, ptr nonnull %34)
  call void @llvm.lifetime.end.p0(i64 8, ptr nonnull %35)
  call void @llvm.lifetime.end.p0(i64 8, ptr nonnull %36)
  call void @llvm.lifetime.end.p0(i64 12, ptr nonnull %37)
  call void @llvm.lifetime.end.p0(i64 12, ptr nonnull %38)
  call void @llvm.lifetime.end.p0(i64 8, ptr nonnull %39)
  call void @llvm.lifetime.end.p0(i64 8, ptr nonnull %40)
  call void @llvm.lifetime.end.p0(i64 32, ptr nonnull %41)
  br label %95

95:                                               ; preds = %87, %80
  store i32 1, ptr %55, align 4, !tbaa !10
  %96 = getelementptr inbounds i8, ptr %55, i64 4
  store i32 1, ptr %96, align 4, !tbaa !13
  %97 = getelementptr inbounds i8, ptr %55, i64 8
  store i32 1, ptr %97, align 4, !tbaa !14
  store i32 1, ptr %56, align 4, !tbaa !10
  %98 = getelementptr inbounds i8, ptr %56, i64 4
  store i32 1, ptr %98, align 4, !tbaa !13
  %99 = getelementptr inbounds i8, ptr %56, i64 8
  store i32 1, ptr %99, align 4, !tbaa !14
  %100 = call i32 @__cudaPushCallConfiguration(ptr noundef nonnull %55, ptr noundef nonnull %56, i64 noundef 0, ptr noundef null)
  %101 = icmp eq i32 %100, 0
  br i1 %101, label %102, label %107

102:                                              ; preds = %95
  call void @llvm.lifetime.start.p0(i64 8, ptr nonnull %27)
  call void @llvm.lifetime.start.p0(i64 12, ptr nonnull %28)
  call void @llvm.lifetime.start.p0(i64 12, ptr nonnull %29)
  call void @llvm.lifetime.start.p0(i64 8, ptr nonnull %30)
  call void @llvm.lifetime.start.p0(i64 8, ptr nonnull %31)
  call void @llvm.lifetime.start.p0(i64 8, ptr nonnull %32)
  store ptr %0, ptr %27, align 8, !tbaa !6
  store ptr %27, ptr %32, align 16
  %103 = call i32 @__cudaPopCallConfiguration(ptr nonnull %28, ptr nonnull %29, ptr nonnull %30, ptr nonnull %31)
  %104 = load i64, ptr %30, align 8
  %105 = load ptr, ptr %31, align 8
  %106 = call noundef i32 @cudaLaunchKernel(ptr noundef nonnull @_ZL20__device_stub__applyIXadL_ZL3onePfEEEvS0_, ptr noundef nonnull %28, ptr noundef nonnull %29, ptr noundef nonnull %32, i64 noundef %104, ptr noundef %105)
  call void @llvm.lifetime.end.p0(i64 8, ptr nonnull %27)
  call void @llvm.lifetime.end.p0(i64 12, ptr nonnull %28)
  call void @llvm.lifetime.end.p0(i64 12, ptr nonnull %29)
  call void @llvm.lifetime.end.p0(i64 8, ptr nonnull %30)
  call void @llvm.lifetime.end.p0(i64 8, ptr nonnull %31)
  call void @llvm.lifetime.end.p0(i64 8, ptr nonnull %32)
  br label %107

107:                                              ; preds = %102, %95
  store i32 1, ptr %57, align 4, !tbaa !10
  %108 = getelementptr inbounds i8, ptr %57, i64 4
  store i32 1, ptr %108, align 4, !tbaa !13
  %109 = getelementptr inbounds i8, ptr %57, i64 8
  store i32 1, ptr %109, align 4, !tbaa !14
  store i32 1, ptr %58, align 4, !tbaa !10
  %110 = getelementptr inbounds i8, ptr %58, i64 4
  store i32 1, ptr %110, align 4, !tbaa !13
  %111 = getelementptr inbounds i8, ptr %58, i64 8
  store i32 1, ptr %111, align 4, !tbaa !14
  %112 = call i32 @__cudaPushCallConfiguration(ptr noundef nonnull %57, ptr noundef nonnull %58, i64 noundef 0, ptr noundef null)
  %113 = icmp eq i32 %112, 0
  br i1 %113, label %114, label %119

114:                                              ; preds = %107
  call void @llvm.lifetime.start.p0(i64 8, ptr nonnull %21)
  call void @llvm.lifetime.start.p0(i64 12, ptr nonnull %22)
  call void @llvm.lifetime.start.p0(i64 12, ptr nonnull %23)
  call void @llvm.lifetime.start.p0(i64 8, ptr nonnull %24)
  call void @llvm.lifetime.start.p0(i64 8, ptr nonnull %25)
  call void @llvm.lifetime.start.p0(i64 8, ptr nonnull %26)
  store ptr %0, ptr %21, align 8, !tbaa !6
  store ptr %21, ptr %26, align 16
  %115 = call i32 @__cudaPopCallConfiguration(ptr nonnull %22, ptr nonnull %23, ptr nonnull %24, ptr nonnull %25)
  %116 = load i64, ptr %24, align 8
  %117 = load ptr, ptr %25, align 8
  %118 = call noundef i32 @cudaLaunchKernel(ptr noundef nonnull @_ZL20__device_stub__applyIXadL_ZL3twoIfEvPT_EEEvPf, ptr noundef nonnull %22, ptr noundef nonnull %23, ptr noundef nonnull %26, i64 noundef %116, ptr noundef %117)
  call void @llvm.lifetime.end.p0(i64 8, ptr nonnull %21)
  call void @llvm.lifetime.end.p0(i64 12, ptr nonnull %22)
  call void @llvm.lifetime.end.p0(i64 12, ptr nonnull %23)
  call void @llvm.lifetime.end.p0(i64 8, ptr nonnull %24)
  call void @llvm.lifetime.end.p0(i64 8, ptr nonnull %25)
  call void @llvm.lifetime.end.p0(i64 8, ptr nonnull %26)
  br label %119

119:                                              ; preds = %114, %107
  store i32 1, ptr %59, align 4, !tbaa !10
  %120 = getelementptr inbounds i8, ptr %59, i64 4
  store i32 1, ptr %120, align 4, !tbaa !13
  %121 = getelementptr inbounds i8, ptr %59, i64 8
  store i32 1, ptr %121, align 4, !tbaa !14
  store i32 1, ptr %60, align 4, !tbaa !10
  %122 = getelementptr inbounds i8, ptr %60, i64 4
  store i32 1, ptr %122, align 4, !tbaa !13
  %123 = getelementptr inbounds i8, ptr %60, i64 8
  store i32 1, ptr %123, align 4, !tbaa !14
  %124 = call i32 @__cudaPushCallConfiguration(ptr noundef nonnull %59, ptr noundef nonnull %60, i64 noundef 0, ptr noundef null)
  %125 = icmp eq i32 %124, 0
  br i1 %125, label %126, label %131

126:                                              ; preds = %119
  call void @llvm.lifetime.start.p0(i64 8, ptr nonnull %15)
  call void @llvm.lifetime.start.p0(i64 12, ptr nonnull %16)
  call void @llvm.lifetime.start.p0(i64 12, ptr nonnull %17)
  call void @llvm.lifetime.start.p0(i64 8, ptr nonnull %18)
  call void @llvm.lifetime.start.p0(i64 8, ptr nonnull %19)
  call void @llvm.lifetime.start.p0(i64 8, ptr nonnull %20)
  store ptr %0, ptr %15, align 8, !tbaa !6
  store ptr %15, ptr %20, align 16
  %127 = call i32 @__cudaPopCallConfiguration(ptr nonnull %16, ptr nonnull %17, ptr nonnull %18, ptr nonnull %19)
  %128 = load i64, ptr %18, align 8
  %129 = load ptr, ptr %19, align 8
  %130 = call noundef i32 @cudaLaunchKernel(ptr noundef nonnull @_Z20__device_stub__sizedILy128EEvPf, ptr noundef nonnull %16, ptr noundef nonnull %17, ptr noundef nonnull %20, i64 noundef %128, ptr noundef %129)
  call void @llvm.lifetime.end.p0(i64 8, ptr nonnull %15)
  call void @llvm.lifetime.end.p0(i64 12, ptr nonnull %16)
  call void @llvm.lifetime.end.p0(i64 12, ptr nonnull %17)
  call void @llvm.lifetime.end.p0(i64 8, ptr nonnull %18)
  call void @llvm.lifetime.end.p0(i64 8, ptr nonnull %19)
  call void @llvm.lifetime.end.p0(i64 8, ptr nonnull %20)
  br label %131

131:                                              ; preds = %126, %119
  store i32 1, ptr %61, align 4, !tbaa !10
  %132 = getelementptr inbounds i8, ptr %61, i64 4
  store i32 1, ptr %132, align 4, !tbaa !13
  %133 = getelementptr inbounds i8, ptr %61, i64 8
  store i32 1, ptr %133, align 4, !tbaa !14
  store i32 1, ptr %62, align 4, !tbaa !10
  %134 = getelementptr inbounds i8, ptr %62, i64 4
  store i32 1, ptr %134, align 4, !tbaa !13
  %135 = getelementptr inbounds i8, ptr %62, i64 8
  store i32 1, ptr %135, align 4, !tbaa !14
  %136 = call i32 @__cudaPushCallConfiguration(ptr noundef nonnull %61, ptr noundef nonnull %62, i64 noundef 0, ptr noundef null)
  %137 = icmp eq i32 %136, 0
  br i1 %137, label %138, label %143

138:                                              ; preds = %131
  call void @llvm.lifetime.start.p0(i64 8, ptr nonnull %9)
  call void @llvm.lifetime.start.p0(i64 12, ptr nonnull %10)
  call void @llvm.lifetime.start.p0(i64 12, ptr nonnull %11)
  call void @llvm.lifetime.start.p0(i64 8, ptr nonnull %12)
  call void @llvm.lifetime.start.p0(i64 8, ptr nonnull %13)
  call void @llvm.lifetime.start.p0(i64 8, ptr nonnull %14)
  store ptr %0, ptr %9, align 8, !tbaa !6
  store ptr %9, ptr %14, align 16
  %139 = call i32 @__cudaPopCallConfiguration(ptr nonnull %10, ptr nonnull %11, ptr nonnull %12, ptr nonnull %13)
  %140 = load i64, ptr %12, align 8
  %141 = load ptr, ptr %13, align 8
  %142 = call noundef i32 @cudaLaunchKernel(ptr noundef nonnull @_ZN12_GLOBAL__N_121__device_stub__hiddenEPf, ptr noundef nonnull %10, ptr noundef nonnull %11, ptr noundef nonnull %14, i64 noundef %140, ptr noundef %141)
  call void @llvm.lifetime.end.p0(i64 8, ptr nonnull %9)
  call void @llvm.lifetime.end.p0(i64 12, ptr nonnull %10)
  call void @llvm.lifetime.end.p0(i64 12, ptr nonnull %11)
  call void @llvm.lifetime.end.p0(i64 8, ptr nonnull %12)
  call void @llvm.lifetime.end.p0(i64 8, ptr nonnull %13)
  call void @llvm.lifetime.end.p0(i64 8, ptr nonnull %14)
  br label %143

143:                                              ; preds = %138, %131
  store i32 1, ptr %63, align 4, !tbaa !10
  %144 = getelementptr inbounds i8, ptr %63, i64 4
  store i32 1, ptr %144, align 4, !tbaa !13
  %145 = getelementptr inbounds i8, ptr %63, i64 8
  store i32 1, ptr %145, align 4, !tbaa !14
  store i32 1, ptr %64, align 4, !tbaa !10
  %146 = getelementptr inbounds i8, ptr %64, i64 4
  store i32 1, ptr %146, align 4, !tbaa !13
  %147 = getelementptr inbounds i8, ptr %64, i64 8
  store i32 1, ptr %147, align 4, !tbaa !14
  %148 = call i32 @__cudaPushCallConfiguration(ptr noundef nonnull %63, ptr noundef nonnull %64, i64 noundef 0, ptr noundef null)
  %149 = icmp eq i32 %148, 0
  br i1 %149, label %150, label %155

150:                                              ; preds = %143
  call void @llvm.lifetime.start.p0(i64 8, ptr nonnull %3)
  call void @llvm.lifetime.start.p0(i64 12, ptr nonnull %4)
  call void @llvm.lifetime.start.p0(i64 12, ptr nonnull %5)
  call void @llvm.lifetime.start.p0(i64 8, ptr nonnull %6)
  call void @llvm.lifetime.start.p0(i64 8, ptr nonnull %7)
  call void @llvm.lifetime.start.p0(i64 8, ptr nonnull %8)
  store ptr %0, ptr %3, align 8, !tbaa !6
  store ptr %3, ptr %8, align 16
  %151 = call i32 @__cudaPopCallConfiguration(ptr nonnull %4, ptr nonnull %5, ptr nonnull %6, ptr nonnull %7)
  %152 = load i64, ptr %6, align 8
  %153 = load ptr, ptr %7, align 8
  %154 = call noundef i32 @cudaLaunchKernel(ptr noundef nonnull @__device_stub__plain, ptr noundef nonnull %4, ptr noundef nonnull %5, ptr noundef nonnull %8, i64 noundef %152, ptr noundef %153)
  call void @llvm.lifetime.end.p0(i64 8, ptr nonnull %3)
  call void @llvm.lifetime.end.p0(i64 12, ptr nonnull %4)
  call void @llvm.lifetime.end.p0(i64 12, ptr nonnull %5)
  call void @llvm.lifetime.end.p0(i64 8, ptr nonnull %6)
  call void @llvm.lifetime.end.p0(i64 8, ptr nonnull %7)
  call void @llvm.lifetime.end.p0(i64 8, ptr nonnull %8)
  br label %155

155:                                              ; preds = %150, %143
  call void @llvm.lifetime.start.p0(i64 4, ptr nonnull %65) #5
  store i32 0, ptr %65, align 4, !tbaa !17
  %156 = call noundef i32 @cudaMemcpyToSymbol(ptr noundef nonnull @counter, ptr noundef nonnull %65, i64 noundef 4, i64 noundef 0, i32 noundef 1)
  call void @llvm.lifetime.end.p0(i64 4, ptr nonnull %65) #5
  ret void
}

declare dso_local i32 @__cudaPushCallConfiguration(ptr noundef, ptr noundef, i64 noundef, ptr noundef) local_unnamed_addr #2

; Function Attrs: mustprogress norecurse uwtable
define internal void @_ZL20__device_stub__scaleIfLi3EEvPKT_PS0_xy(ptr noundef %0, ptr noundef %1, i64 noundef %2, i64 noundef %3) #0 {
  %5 = alloca ptr, align 8
  %6 = alloca ptr, align 8
  %7 = alloca i64, align 8
  %8 = alloca i64, align 8
  %9 = alloca %struct.dim3, align 8
  %10 = alloca %struct.dim3, align 8
  %11 = alloca i64, align 8
  %12 = alloca ptr, align 8
  store ptr %0, ptr %5, align 8, !tbaa !6
  store ptr %1, ptr %6, align 8, !tbaa !6
  store i64 %2, ptr %7, align 8, !tbaa !15
  store i64 %3, ptr %8, align 8, !tbaa !15
  %13 = alloca [4 x ptr], align 16
  store ptr %5, ptr %13, align 16
  %14 = getelementptr inbounds i8, ptr %13, i64 8
  store ptr %6, ptr %14, align 8
  %15 = getelementptr inbounds i8, ptr %13, i64 16
  store ptr %7, ptr %15, align 16
  %16 = getelementptr inbounds i8, ptr %13, i64 24
  store ptr %8, ptr %16, align 8
  %17 = call i32 @__cudaPopCallConfiguration(ptr nonnull %9, ptr nonnull %10, ptr nonnull %11, ptr nonnull %12)
  %18 = load i64, ptr %11, align 8
  %19 = load ptr, ptr %12, align 8
  %20 = call noundef i32 @cudaLaunchKernel(ptr noundef nonnull @_ZL20__device_stub__scaleIfLi3EEvPKT_PS0_xy, ptr noundef nonnull %9, ptr noundef nonnull %10, ptr noundef nonnull %13, i64 noundef %18, ptr noundef %19)
  ret void
}

; Function Attrs: mustprogress norecurse uwtable
define internal void @_ZL20__device_stub__scaleIdLi4EEvPKT_PS0_xy(ptr noundef %0, ptr noundef %1, i64 noundef %2, i64 noundef %3) #0 {
  %5 = alloca ptr, align 8
  %6 = alloca ptr, align 8
  %7 = alloca i64, align 8
  %8 = alloca i64, align 8
  %9 = alloca %struct.dim3, align 8
  %10 = alloca %struct.dim3, align 8
  %11 = alloca i64, align 8
  %12 = alloca ptr, align 8
  store ptr %0, ptr %5, align 8, !tbaa !6
  store ptr %1, ptr %6, align 8, !tbaa !6
  store i64 %2, ptr %7, align 8, !tbaa !15
  store i64 %3, ptr %8, align 8, !tbaa !15
  %13 = alloca [4 x ptr], align 16
  store ptr %5, ptr %13, align 16
  %14 = getelementptr inbounds i8, ptr %13, i64 8
  store ptr %6, ptr %14, align 8
  %15 = getelementptr inbounds i8, ptr %13, i64 16
  store ptr %7, ptr %15, align 16
  %16 = getelementptr inbounds i8, ptr %13, i64 24
  store ptr %8, ptr %16, align 8
  %17 = call i32 @__cudaPopCallConfiguration(ptr nonnull %9, ptr nonnull %10, ptr nonnull %11, ptr nonnull %12)
  %18 = load i64, ptr %11, align 8
  %19 = load ptr, ptr %12, align 8
  %20 = call noundef i32 @cudaLaunchKernel(ptr noundef nonnull @_ZL20__device_stub__scaleIdLi4EEvPKT_PS0_xy, ptr noundef nonnull %9, ptr noundef nonnull %10, ptr noundef nonnull %13, i64 noundef %18, ptr noundef %19)
  ret void
}

; Function Attrs: mustprogress norecurse uwtable
define internal void @_ZL20__device_stub__applyIXadL_ZL3onePfEEEvS0_(ptr noundef %0) #0 {
  %2 = alloca ptr, align 8
  %3 = alloca %struct.dim3, align 8
  %4 = alloca %struct.dim3, align 8
  %5 = alloca i64, align 8
  %6 = alloca ptr, align 8
  store ptr %0, ptr %2, align 8, !tbaa !6
  %7 = alloca ptr, align 16
  store ptr %2, ptr %7, align 16
  %8 = call i32 @__cudaPopCallConfiguration(ptr nonnull %3, ptr nonnull %4, ptr nonnull %5, ptr nonnull %6)
  %9 = load i64, ptr %5, align 8
  %10 = load ptr, ptr %6, align 8
  %11 = call noundef i32 @cudaLaunchKernel(ptr noundef nonnull @_ZL20__device_stub__applyIXadL_ZL3onePfEEEvS0_, ptr noundef nonnull %3, ptr noundef nonnull %4, ptr noundef nonnull %7, i64 noundef %9, ptr noundef %10)
  ret void
}

; Function Attrs: mustprogress norecurse uwtable
define internal void @_ZL20__device_stub__applyIXadL_ZL3twoIfEvPT_EEEvPf(ptr noundef %0) #0 {
  %2 = alloca ptr, align 8
  %3 = alloca %struct.dim3, align 8
  %4 = alloca %struct.dim3, align 8
  %5 = alloca i64, align 8
  %6 = alloca ptr, align 8
  store ptr %0, ptr %2, align 8, !tbaa !6
  %7 = alloca ptr, align 16
  store ptr %2, ptr %7, align 16
  %8 = call i32 @__cudaPopCallConfiguration(ptr nonnull %3, ptr nonnull %4, ptr nonnull %5, ptr nonnull %6)
  %9 = load i64, ptr %5, align 8
  %10 = load ptr, ptr %6, align 8
  %11 = call noundef i32 @cudaLaunchKernel(ptr noundef nonnull @_ZL20__device_stub__applyIXadL_ZL3twoIfEvPT_EEEvPf, ptr noundef nonnull %3, ptr noundef nonnull %4, ptr noundef nonnull %7, i64 noundef %9, ptr noundef %10)
  ret void
}

; Function Attrs: mustprogress norecurse uwtable
define linkonce_odr dso_local void @_Z20__device_stub__sizedILy128EEvPf(ptr noundef %0) #0 comdat {
  %2 = alloca ptr, align 8
  %3 = alloca %struct.dim3, align 8
  %4 = alloca %struct.dim3, align 8
  %5 = alloca i64, align 8
  %6 = alloca ptr, align 8
  store ptr %0, ptr %2, align 8, !tbaa !6
  %7 = alloca ptr, align 16
  store ptr %2, ptr %7, align 16
  %8 = call i32 @__cudaPopCallConfiguration(ptr nonnull %3, ptr nonnull %4, ptr nonnull %5, ptr nonnull %6)
  %9 = load i64, ptr %5, align 8
  %10 = load ptr, ptr %6, align 8
  %11 = call noundef i32 @cudaLaunchKernel(ptr noundef nonnull @_Z20__device_stub__sizedILy128EEvPf, ptr noundef nonnull %3, ptr noundef nonnull %4, ptr noundef nonnull %7, i64 noundef %9, ptr noundef %10)
  ret void
}

; Function Attrs: mustprogress norecurse uwtable
define internal void @_ZN12_GLOBAL__N_121__device_stub__hiddenEPf(ptr noundef %0) #0 {
  %2 = alloca ptr, align 8
  %3 = alloca %struct.dim3, align 8
  %4 = alloca %struct.dim3, align 8
  %5 = alloca i64, align 8
  %6 = alloca ptr, align 8
  store ptr %0, ptr %2, align 8, !tbaa !6
  %7 = alloca ptr, align 16
  store ptr %2, ptr %7, align 16
  %8 = call i32 @__cudaPopCallConfiguration(ptr nonnull %3, ptr nonnull %4, ptr nonnull %5, ptr nonnull %6)
  %9 = load i64, ptr %5, align 8
  %10 = load ptr, ptr %6, align 8
  %11 = call noundef i32 @cudaLaunchKernel(ptr noundef nonnull @_ZN12_GLOBAL__N_121__device_stub__hiddenEPf, ptr noundef nonnull %3, ptr noundef nonnull %4, ptr noundef nonnull %7, i64 noundef %9, ptr noundef %10)
  ret void
}

; Function Attrs: mustprogress nocallback nofree nosync nounwind willreturn memory(argmem: readwrite)
declare void @llvm.lifetime.start.p0(i64 immarg, ptr nocapture) #3

; Function Attrs: mustprogress nocallback nofree nosync nounwind willreturn memory(argmem: readwrite)
declare void @llvm.lifetime.end.p0(i64 immarg, ptr nocapture) #3

declare dso_local i32 @cudaMemcpyToSymbol(ptr noundef, ptr noundef, i64 noundef, i64 noundef, i32 noundef) local_unnamed_addr #2

declare dso_local i32 @__cudaRegisterFunction(ptr, ptr, ptr, ptr, i32, ptr, ptr, ptr, ptr, ptr) local_unnamed_addr

declare dso_local void @__cudaRegisterVar(ptr, ptr, ptr, ptr, i32, i64, i32, i32) local_unnamed_addr

declare dso_local ptr @__cudaRegisterFatBinary(ptr) local_unnamed_addr

define internal void @__cuda_module_ctor() {
  %1 = tail call ptr @__cudaRegisterFatBinary(ptr nonnull @__cuda_fatbin_wrapper)
  store ptr %1, ptr @__cuda_gpubin_handle, align 8
  %2 = tail call i32 @__cudaRegisterFunction(ptr %1, ptr nonnull @__device_stub__plain, ptr nonnull @0, ptr nonnull @0, i32 -1, ptr null, ptr null, ptr null, ptr null, ptr null)
  %3 = tail call i32 @__cudaRegisterFunction(ptr %1, ptr nonnull @_ZN12_GLOBAL__N_121__device_stub__hiddenEPf, ptr nonnull @1, ptr nonnull @1, i32 -1, ptr null, ptr null, ptr null, ptr null, ptr null)
  %4 = tail call i32 @__cudaRegisterFunction(ptr %1, ptr nonnull @_ZL20__device_stub__scaleIfLi3EEvPKT_PS0_xy, ptr nonnull @2, ptr nonnull @2, i32 -1, ptr null, ptr null, ptr null, ptr null, ptr null)
  %5 = tail call i32 @__cudaRegisterFunction(ptr %1, ptr nonnull @_ZL20__device_stub__scaleIdLi4EEvPKT_PS0_xy, ptr nonnull @3, ptr nonnull @3, i32 -1, ptr null, ptr null, ptr null, ptr null, ptr null)
  %6 = tail call i32 @__cudaRegisterFunction(ptr %1, ptr nonnull @_ZL20__device_stub__applyIXadL_ZL3onePfEEEvS0_, ptr nonnull @4, ptr nonnull @4, i32 -1, ptr null, ptr null, ptr null, ptr null, ptr null)
  %7 = tail call i32 @__cudaRegisterFunction(ptr %1, ptr nonnull @_ZL20__device_stub__applyIXadL_ZL3twoIfEvPT_EEEvPf, ptr nonnull @5, ptr nonnull @5, i32 -1, ptr null, ptr null, ptr null, ptr null, ptr null)
  %8 = tail call i32 @__cudaRegisterFunction(ptr %1, ptr nonnull @_Z20__device_stub__sizedILy128EEvPf, ptr nonnull @6, ptr nonnull @6, i32 -1, ptr null, ptr null, ptr null, ptr null, ptr null)
  tail call void @__cudaRegisterVar(ptr %1, ptr nonnull @counter, ptr nonnull @7, ptr nonnull @7, i32 0, i64 4, i32 0, i32 0)
  tail call void @__cudaRegisterFatBinaryEnd(ptr %1)
  %9 = tail call i32 @atexit(ptr nonnull @__cuda_module_dtor)
  ret void
}

declare dso_local void @__cudaRegisterFatBinaryEnd(ptr) local_unnamed_addr

declare dso_local void @__cudaUnregisterFatBinary(ptr) local_unnamed_addr

define internal void @__cuda_module_dtor() {
  %1 = load ptr, ptr @__cuda_gpubin_handle, align 8
  tail call void @__cudaUnregisterFatBinary(ptr %1)
  ret void
}

; Function Attrs: nofree
declare dso_local i32 @atexit(ptr) local_unnamed_addr #4

attributes #0 = { mustprogress norecurse uwtable "min-legal-vector-width"="0" "no-trapping-math"="true" "stack-protector-buffer-size"="8" "target-cpu"="x86-64" "target-features"="+cmov,+cx8,+fxsr,+mmx,+sse,+sse2,+x87" "tune-cpu"="generic" "uniform-work-group-size"="true" }
attributes #1 = { mustprogress uwtable "min-legal-vector-width"="0" "no-trapping-math"="true" "stack-protector-buffer-size"="8" "target-cpu"="x86-64" "target-features"="+cmov,+cx8,+fxsr,+mmx,+sse,+sse2,+x87" "tune-cpu"="generic" }
attributes #2 = { "no-trapping-math"="true" "stack-protector-buffer-size"="8" "target-cpu"="x86-64" "target-features"="+cmov,+cx8,+fxsr,+mmx,+sse,+sse2,+x87" "tune-cpu"="generic" }
attributes #3 = { mustprogress nocallback nofree nosync nounwind willreturn memory(argmem: readwrite) }
attributes #4 = { nofree }
attributes #5 = { nounwind }

!llvm.module.flags = !{!0, !1, !2, !3, !4}
!llvm.ident = !{!5}

!0 = !{i32 2, !"SDK Version", [2 x i32] [i32 11, i32 2]}
!1 = !{i32 1, !"wchar_size", i32 2}
!2 = !{i32 8, !"PIC Level", i32 2}
!3 = !{i32 7, !"uwtable", i32 2}
!4 = !{i32 1, !"MaxTLSAlign", i32 65536}
!5 = !{!"Debian clang version 19.1.7 (3~deb12u1)"}
!6 = !{!7, !7, i64 0}
!7 = !{!"any pointer", !8, i64 0}
!8 = !{!"omnipotent char", !9, i64 0}
!9 = !{!"Simple C++ TBAA"}
!10 = !{!11, !12, i64 0}
!11 = !{!"_ZTS4dim3", !12, i64 0, !12, i64 4, !12, i64 8}
!12 = !{!"int", !8, i64 0}
!13 = !{!11, !12, i64 4}
!14 = !{!11, !12, i64 8}
!15 = !{!16, !16, i64 0}
!16 = !{!"long long", !8, i64 0}
!17 = !{!12, !12, i64 0}
